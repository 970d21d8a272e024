//! The third step of recovery: MemTables from their arenas (paper, section 5; `docs/internals/recovery.md`).
//!
//! An arena's records must be read in order, so arenas are read one after the other. The next one is loaded meanwhile,
//! and the lists of those already read are built on several threads, because that takes longest.

use std::panic::resume_unwind;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Arena};
use slmdb_structures::log::{self, ExpectedSequence, Log, PayloadKind, Stop};
use slmdb_structures::memtable::{ReadArena, Replayed, read};
use slmdb_sync::scheduled::{Mutex, mpsc, processors, thread};

use crate::Options;
use crate::background::workers::spawn_scoped;
use crate::batch::Totals;
use crate::write::arenas::Arenas;
use crate::write::memtables::Immutable;

/// How many loaded arenas may wait to be read.
const ARENAS_AHEAD: usize = 1;

/// What the arenas hold beyond the table files.
pub struct ReplayedLog {
    /// Oldest first; none is empty.
    pub memtables: Vec<Immutable>,
    /// The last sequence number before the log's end.
    pub last_sequence: u64,
}

/// Reads the log: the records of all arenas, up to the first missing sequence number (INV-3). Replaying an arena that
/// goes on behind the end finds out whether its records vouch for what is missing. A clean close vouches for the whole
/// log, which is checked here.
pub fn replay_log(options: &Options, state: &StoreState, arenas: &Arenas) -> Result<ReplayedLog> {
    let mut expected = ExpectedSequence::First { flushed_through: state.flushed_through };
    let order = options.comparator.clone();
    let mut read_next = |(generation, sealed_last_sequence, loaded): Loaded| {
        let read = read(loaded?, generation, state.uuid, &order, expected, sealed_last_sequence)?;
        expected = read.reading.expected_next;
        Ok(read)
    };
    let built = if state.arenas.len() > 1 {
        let (sender, receiver) = mpsc::sync_channel(ARENAS_AHEAD);
        thread::scope(|scope| {
            // Until the receiver is gone.
            let load = move || load_in_order(state, arenas).all(|loaded| sender.send(loaded).is_ok());
            spawn_scoped(scope, load)?;
            build_side_by_side(receiver.into_iter().map(read_next))
        })?
    } else {
        // With one arena, nothing can run beside.
        load_in_order(state, arenas).map(|loaded| build(read_next(loaded)?)).collect::<Result<Vec<_>>>()?
    };
    let mut log = ReplayedLog { memtables: Vec::new(), last_sequence: state.flushed_through };
    let mut end = (arenas.describe(0), 0);
    for (Replayed { memtable, reading, .. }, totals) in built {
        let memtable = Arc::new(memtable);
        if matches!(reading.stopped, Stop::Broken { .. }) {
            arenas.check_end(memtable.generation(), memtable.arena(), reading.end_offset)?;
        }
        if reading.last_sequence.is_some() || log.memtables.is_empty() {
            end = memtable.arena().place(reading.end_offset);
        }
        if let Some(last_sequence) = reading.last_sequence.filter(|&last| last > log.last_sequence) {
            log.last_sequence = last_sequence;
            log.memtables.push(Immutable::recovered(memtable, totals, last_sequence));
        }
    }
    match state.closed_at_sequence {
        Some(closed) if closed != log.last_sequence => {
            let what = format!("the log ends at sequence number {}, but was closed at {closed}", log.last_sequence);
            Err(Error::corruption(end.0, end.1, what))
        }
        _ => Ok(log),
    }
}

/// An arena of the store: its generation, the last sequence number that it was sealed with, and its bytes.
type Loaded = (u64, Option<u64>, Result<Arena<AnyMedium>>);

/// Loads the arenas of the store, one after the other.
fn load_in_order(state: &StoreState, arenas: &Arenas) -> impl Iterator<Item = Loaded> {
    state.arenas.iter().map(|(&generation, record)| {
        let loaded = arenas.load(generation, Some(record.length_bytes)).and_then(|arena| {
            let missing = || format!("arena {generation} of the store is missing");
            arena.ok_or_else(|| Error::corruption(arenas.describe(generation), 0, missing()))
        });
        (generation, record.sealed_last_sequence, loaded)
    })
}

/// Builds a MemTable from an arena that was read.
fn build(arena: ReadArena<AnyMedium>) -> Result<(Replayed<AnyMedium>, Totals)> {
    let replayed = arena.build()?;
    let totals = totals_of(&replayed.memtable);
    Ok((replayed, totals))
}

/// Builds MemTables from arenas as they are read, several at once, because building takes longer than reading.
fn build_side_by_side(
    arenas: impl Iterator<Item = Result<ReadArena<AnyMedium>>>,
) -> Result<Vec<(Replayed<AnyMedium>, Totals)>> {
    let threads = processors();
    let mut built = thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel::<(usize, ReadArena<AnyMedium>)>();
        let receiver = Arc::new(Mutex::new(receiver));
        let build_all = |receiver: Arc<Mutex<mpsc::Receiver<_>>>| {
            let next = || receiver.lock().recv().ok();
            let building = std::iter::from_fn(next)
                .map(|(position, arena): (usize, ReadArena<AnyMedium>)| Ok((position, build(arena)?)));
            building.collect::<Result<Vec<_>>>()
        };
        let mut builders = Vec::new();
        for (position, read) in arenas.enumerate() {
            // If it can't be sent, no builder is left: joining them returns the error.
            let _ = sender.send((position, read?));
            if builders.len() < threads {
                let receiver = receiver.clone();
                builders.push(spawn_scoped(scope, move || build_all(receiver))?);
            }
        }
        drop((sender, receiver));
        let joined = builders.into_iter().map(|builder| builder.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.collect::<Result<Vec<_>>>()
    })?
    .into_iter()
    .flatten()
    .collect::<Vec<_>>();
    built.sort_unstable_by_key(|&(position, ..)| position);
    Ok(built.into_iter().map(|(_, built)| built).collect())
}

/// What the flush of a recovered log's entries takes at worst.
fn totals_of(log: &Log<AnyMedium>) -> Totals {
    let mut totals = Totals::default();
    let mut since_range = Totals::default();
    for entry in log.logged_entries() {
        if entry.kind == PayloadKind::DeleteRange {
            totals.add(0, None);
            totals = totals.plus(&std::mem::take(&mut since_range).as_deletes());
            continue;
        }
        let value_bytes = (entry.kind == PayloadKind::Put).then_some(entry.value.len());
        totals.add(entry.key.len(), value_bytes);
        since_range.add(entry.key.len(), value_bytes);
    }
    totals
}

/// Checks for an arena that the MANIFEST does not name and that goes on where the log ends: the MANIFEST is then not
/// the newest. An arena with only copies of what the log holds is allowed; a recovery that was cut short may have left
/// it.
pub fn check_strays(state: &StoreState, arenas: &Arenas, last_sequence: u64) -> Result<()> {
    for generation in arenas.present()? {
        if generation < state.next_generation {
            continue;
        }
        let Some(arena) = arenas.load(generation, None)? else { continue };
        let expected = ExpectedSequence::First { flushed_through: last_sequence };
        let (log, reading) = log::read(arena, generation, state.uuid, expected, None, |_| ())?;
        if reading.last_sequence.is_some_and(|last| last > last_sequence) {
            let (file, offset) = log.arena().place(0);
            let what = format!("arena {generation} goes on where the log ends, but the MANIFEST does not know it");
            return Err(Error::corruption(file, offset, what));
        }
    }
    Ok(())
}
