//! `leveldb_property_value`: what a store says of itself, under LevelDB's names.

use std::ffi::c_char;
use std::fmt::Write;
use std::ptr::null_mut;

use slmdb::Db;
use slmdb_cli::reports::stats;

use crate::common::arguments::{handle, text};
use crate::common::failure::{Result, caught};
use crate::common::memory::copied_text;
use crate::leveldb::db::leveldb_t;

/// How many levels LevelDB has. All files of SLM-DB are of level 0.
const LEVELS: u32 = 7;

/// The value of a property, which the caller frees; null if there is none of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_property_value(db: *mut leveldb_t, name: *const c_char) -> *mut c_char {
    let value = caught(|| {
        // SAFETY: HANDLE, TEXT.
        let (db, name) = unsafe { (&handle(db, "the store")?.db, text(name, "the name")?) };
        name.to_str().map_or(Ok(None), |name| property(db, name))
    });
    value.ok().flatten().map_or(null_mut(), |value| copied_text(&value))
}

fn property(db: &Db, name: &str) -> Result<Option<String>> {
    let Some(name) = name.strip_prefix("leveldb.") else { return Ok(None) };
    if let Some(level) = name.strip_prefix("num-files-at-level") {
        let is_number = !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_digit());
        let level = level.parse::<u32>().ok().filter(|&level| is_number && level < LEVELS);
        let files_of = |level| db.table_files().iter().filter(|file| file.level == level).count();
        return Ok(level.map(|level| files_of(level).to_string()));
    }
    Ok(match name {
        "stats" => Some(stats::text(&db.stats()).join("\n") + "\n"),
        "sstables" => Some(table_files(db)),
        "approximate-memory-usage" => Some(db.stats().memory_bytes.to_string()),
        _ => None,
    })
}

/// In LevelDB's form, level by level: number, length in bytes, and the keys from and to which it goes, with the sequence numbers.
fn table_files(db: &Db) -> String {
    let files = db.table_files();
    let deepest = files.iter().map(|file| file.level).max().unwrap_or(0);
    let mut text = String::new();
    for level in 0..=deepest {
        // Writing to a string can't fail.
        let _ = writeln!(text, "--- level {level} ---");
        for file in files.iter().filter(|file| file.level == level) {
            let (smallest, largest) = (file.smallest_key.escape_ascii(), file.largest_key.escape_ascii());
            let (number, bytes, lowest, highest) =
                (file.number, file.bytes, file.lowest_sequence, file.highest_sequence);
            let _ = writeln!(text, " {number}:{bytes}['{smallest}' .. '{largest}'] @ {lowest} .. {highest}");
        }
    }
    text
}
