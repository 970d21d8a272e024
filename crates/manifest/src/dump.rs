//! A state as text for people and for tests that compare.

use std::fmt::{self, Write};

use slmdb_env::FileIdentity;

use crate::state::{FileRecord, Home, MediumKind, StoreState, UnfinishedRepair};

/// More of a key than this is not shown.
const KEY_SHOWN_BYTES: usize = 40;

/// The whole state, a thing a line. Keys are escaped as the command line escapes them, and long ones cut.
pub fn dump(state: &StoreState) -> String {
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = write_state(&mut text, state);
    text
}

fn write_state(to: &mut String, state: &StoreState) -> fmt::Result {
    writeln!(to, "store {}", Hex(&state.uuid))?;
    if state.files_uuid != state.uuid {
        writeln!(to, "files of store {}", Hex(&state.files_uuid))?;
    }
    writeln!(to, "engine {}", state.engine)?;
    writeln!(to, "comparator {}", state.comparator)?;
    let medium = &state.medium;
    let kind = match medium.kind {
        MediumKind::Dram => "Dram",
        MediumKind::Emulated => "Emulated",
        MediumKind::Dax => "Dax",
    };
    write!(to, "medium {kind}")?;
    if let Some(path) = &medium.pool_path {
        write!(to, ", pool {}", path.display())?;
    }
    if let Some(uuid) = &medium.pool_uuid {
        write!(to, ", pool uuid {}", Hex(uuid))?;
    }
    writeln!(to, ", boot {}", Hex(&medium.boot_id))?;
    match state.closed_at_sequence {
        Some(sequence) => writeln!(to, "closed at sequence number {sequence}")?,
        None => writeln!(to, "not closed")?,
    }
    writeln!(to, "flushed through {}", state.flushed_through)?;
    writeln!(to, "last job {}", state.last_job)?;
    writeln!(to, "next file number {}", state.next_file_number)?;
    writeln!(to, "next generation {}", state.next_generation)?;

    writeln!(to, "files {}", state.files.len())?;
    write_runs(to, state.files.iter())?;
    if !state.lists.is_empty() {
        writeln!(to, "lists {}", state.lists.len())?;
        write_runs(to, state.lists.iter())?;
    }
    writeln!(to, "arenas {}", state.arenas.len())?;
    for (generation, arena) in &state.arenas {
        write!(to, "  {generation}: {} bytes, ", arena.length_bytes)?;
        match arena.sealed_last_sequence {
            Some(last) => writeln!(to, "sealed at {last}")?,
            None => writeln!(to, "open")?,
        }
    }
    if let Some(UnfinishedRepair { old_pool, new_pool }) = &state.unfinished_repair {
        let old_pool = old_pool.as_ref().map_or_else(|| "none".into(), |uuid| Hex(uuid).to_string());
        writeln!(to, "unfinished repair, old pool {old_pool}, new pool {}", Hex(new_pool))?;
    }
    if let Some(Home { directory, pool_openings }) = &state.home {
        let FileIdentity { inode, born_ns } = directory;
        writeln!(to, "home: directory {inode}, made at {born_ns} ns since 1970, pool opened {pool_openings} times")?;
    }
    for (part, bytes) in &state.engine_section {
        writeln!(to, "engine's part {part}: {}", Hex(bytes))?;
    }
    writeln!(to, "lifetime")?;
    for (name, value) in state.lifetime.named() {
        writeln!(to, "  {name} {value}")?;
    }
    Ok(())
}

fn write_runs<'s>(to: &mut String, runs: impl Iterator<Item = (&'s u32, &'s FileRecord)>) -> fmt::Result {
    for (number, file) in runs {
        let FileRecord { length_bytes, entries, deletes, live_keys: live, .. } = file;
        let (smallest, largest) = (Key(&file.smallest_key), Key(&file.largest_key));
        let (lowest, highest) = (file.lowest_sequence, file.highest_sequence);
        write!(to, "  {number}: {length_bytes} bytes, {entries} entries, {deletes} deletes, {live} live, ")?;
        write!(to, "sequence {lowest}..{highest}, keys {smallest}..{largest}, made {}", file.created_unix_ns)?;
        if file.level > 0 {
            write!(to, ", level {}", file.level)?;
        }
        writeln!(to)?;
    }
    Ok(())
}

/// Bytes in hexadecimal.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(to, "{byte:02x}"))
    }
}

/// A key in quotation marks, with what can't be printed escaped.
struct Key<'a>(&'a [u8]);

impl fmt::Display for Key<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(KEY_SHOWN_BYTES)];
        to.write_char('"')?;
        for chunk in shown.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\t' => to.write_str("\\t")?,
                    '\n' => to.write_str("\\n")?,
                    '\r' => to.write_str("\\r")?,
                    '\\' => to.write_str("\\\\")?,
                    '\0'..' ' | '\x7f' => write!(to, "\\x{:02x}", u32::from(character))?,
                    other => to.write_char(other)?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(to, "\\x{byte:02x}"))?;
        }
        to.write_char('"')?;
        if shown.len() < self.0.len() {
            write!(to, "… ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}
