//! A process killed in the middle of writing, and what must be there afterwards.
//!
//! The writer is this program again. It puts one key after the other and, when a put has returned, sends the key's
//! number through a pipe: that is the acknowledgement, and what has been sent outlives the sender. SIGKILL can't be
//! caught, so nothing tidies up. Afterwards the store must hold every acknowledged key with its value, at most the
//! one key that was on its way, and nothing else; and the next writer goes on from there.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use slmdb::Db;

use super::ground::own_program;
use super::media::Stage;
use super::report::{Report, wrong};
use super::steps::compare;
use super::workload::{fill_value, in_key_order, key};
use crate::failure::{Failure, Result};
use crate::units::count;

/// How often the writer is killed.
const KILLS: u64 = 3;
/// The writer's MemTables: small, so that a kill finds flushes under way.
const WRITER_MEMTABLE: &str = "4MiB";
/// A writer that has put nothing after this long never will.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a writer may write before it is killed, even if it is slow.
const WRITING_MAX: Duration = Duration::from_secs(2);

/// Kills and checks. `keys` says roughly how many puts to wait for.
pub fn run(report: &mut Report, stage: &Stage, keys: u64) -> Result<()> {
    let mut present = 0;
    for kill in 1..=KILLS {
        let target = present + keys / 20 + noise() % (keys / 10 + 1) + 1;
        let acknowledged = write_and_kill(stage, present, target)?;
        let started = Instant::now();
        let db = stage.options().open(stage.directory())?;
        let opened = started.elapsed();
        present = check(&db, acknowledged)?;
        db.close()?;
        let beyond = if present > acknowledged { ", and the one that was on its way" } else { "" };
        report.step(
            "kill",
            &format!(
                "{kill} of {KILLS}: SIGKILL after {} acknowledged puts; opened in {:.2} s: every one there{beyond}, nothing else",
                count(acknowledged),
                opened.as_secs_f64()
            ),
        )?;
    }
    Ok(())
}

/// Starts a writer at key `first`, kills it when `target` keys are acknowledged, and gives the number of keys that are.
fn write_and_kill(stage: &Stage, first: u64, target: u64) -> Result<u64> {
    let program = own_program()?;
    let mut command = Command::new(&program);
    command.arg("demo-writer").args(stage.arguments()).args(["--memtable", WRITER_MEMTABLE]);
    command.arg("--first").arg(first.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut writer = Writer(command.spawn().map_err(|error| Failure::io("start", &program, error))?);
    let Some(mut pipe) = writer.0.stdout.take() else { return Err(wrong("the writer has no standard output")) };

    let acknowledged = Arc::new(AtomicU64::new(first));
    let listener = thread::spawn({
        let acknowledged = acknowledged.clone();
        move || {
            let mut number = [0; 8];
            while pipe.read_exact(&mut number).is_ok() {
                acknowledged.store(u64::from_le_bytes(number) + 1, Ordering::Release);
            }
        }
    });
    let started = Instant::now();
    let mut first_seen = None;
    loop {
        let now = acknowledged.load(Ordering::Acquire);
        if now > first && first_seen.is_none() {
            first_seen = Some(Instant::now());
        }
        if now >= target || first_seen.is_some_and(|seen| seen.elapsed() > WRITING_MAX) {
            break;
        }
        if let Ok(Some(status)) = writer.0.try_wait() {
            return Err(wrong(format!("the writer ended by itself: {status}")));
        }
        if first_seen.is_none() && started.elapsed() > PATIENCE {
            return Err(wrong(format!("the writer put nothing within {} s", PATIENCE.as_secs())));
        }
        thread::sleep(Duration::from_micros(200));
    }
    drop(writer);
    // The pipe still holds what was sent before the end.
    if listener.join().is_err() {
        return Err(wrong("the listener failed"));
    }
    Ok(acknowledged.load(Ordering::Acquire))
}

/// A writer; dropping it kills it.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        // On Unix this is SIGKILL.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Checks that the keys below `acknowledged`, or one more, are there, and nothing else. Gives the number.
fn check(db: &Db, acknowledged: u64) -> Result<u64> {
    let on_its_way = db.get(key(acknowledged))?.is_some();
    let present = acknowledged + u64::from(on_its_way);
    compare(db.range::<&[u8]>(..)?, in_key_order(present).iter())?;
    Ok(present)
}

/// The writer: puts and acknowledges until it is killed, or until nobody listens any more.
pub fn write_until_killed(db: &Db, first: u64) -> Result<()> {
    let mut value = Vec::new();
    let mut acknowledgements = io::stdout().lock();
    for number in first..u64::MAX {
        fill_value(&mut value, number);
        db.put(key(number), &value)?;
        let sent = acknowledgements.write_all(&number.to_le_bytes()).and_then(|()| acknowledgements.flush());
        if sent.is_err() {
            return Err(Failure::ClosedPipe);
        }
    }
    Ok(())
}

/// A number that is another one each time: the kills should not come at the same moment in every demo.
fn noise() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    super::workload::scattered(since.as_nanos() as u64)
}
