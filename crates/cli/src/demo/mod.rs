//! What the store does, shown on this machine in under a minute.
//!
//! Every line stands for work that was really done, and whose outcome was compared with what it had to be; a line is
//! printed only once it is true. [`ground`] finds a place and clears it; [`media`] says what there is to run on, and
//! [`machine`] which persistent memory the system shows; [`steps`] and [`kill`] are the show; [`workload`] makes keys and
//! values that can be told from their number.

mod ground;
mod kill;
mod machine;
mod media;
mod report;
mod steps;
mod workload;

use std::path::Path;
use std::time::Instant;

use slmdb::EngineName;

pub use ground::sweep;
pub use kill::write_until_killed;

use crate::failure::Result;
use crate::units::{bytes, count};
use ground::{Ground, free_bytes};
use report::Report;
use workload::{KEY_BYTES, VALUE_BYTES};

/// Arenas of MemTables, spare ones included, that exist at once, and room for the pool to grow by.
const FAST_TIER_BYTES: u64 = 6 * (64 << 20);
/// What a key may take in the index, generously.
const INDEX_BYTES_PER_KEY: u64 = 300;

/// Runs the demo with `keys` keys on each medium, in a temporary directory (inside `parent`, if named), with stores of
/// `engine`, or of the default one.
pub fn run(keys: u64, parent: Option<&Path>, engine: Option<EngineName>) -> Result<()> {
    let started = Instant::now();
    let user_bytes = keys * (KEY_BYTES + VALUE_BYTES) as u64;
    let ground =
        Ground::prepare(parent, 2 * user_bytes + FAST_TIER_BYTES, keys * INDEX_BYTES_PER_KEY + FAST_TIER_BYTES)?;
    let mut report = Report::new();
    report.say(&format!(
        "slmdb {}: {} keys of {KEY_BYTES} bytes with values of {VALUE_BYTES} bytes ({}), on each medium",
        env!("CARGO_PKG_VERSION"),
        count(keys),
        bytes(user_bytes)
    ))?;
    let place = ground.stores().display().to_string();
    report.say(&format!(
        "working in {place} ({} free), which is removed at the end",
        bytes(free_bytes(ground.stores())?)
    ))?;
    persistent_memory(&mut report, &ground)?;

    for medium in media::media(&ground, engine) {
        report.say(&format!("\nmedium {}: {}", medium.name, medium.description))?;
        let stage = medium.stage("store");
        steps::run(&mut report, &stage, keys)?;
        stage.remove();
        let stage = medium.stage("killed");
        kill::run(&mut report, &stage, keys)?;
        stage.remove();
    }

    ground.clear()?;
    report.say(&format!(
        "\nok: everything was as it had to be; {place} is removed; {:.1} s in all",
        started.elapsed().as_secs_f64()
    ))
}

fn persistent_memory(report: &mut Report, ground: &Ground) -> Result<()> {
    let found = machine::persistent_memory();
    if found.is_empty() {
        return report
            .say("persistent memory: none found on this machine (`--pm emulated:PATH` emulates it with any file)");
    }
    report.say(&format!("persistent memory: {}", found.join(", ")))?;
    if ground.direct_pools().is_none() {
        report.say("  (none that this demo could use: mounted with -o dax, with room, and ours to write to)")?;
    }
    Ok(())
}
