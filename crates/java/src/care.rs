//! What keeps a store: compactions, copies, checks, repairs, and what it says of itself.

use std::path::Path;

use slmdb::PoolFate;
use slmdb_cli::reports;

use crate::failure::Result;
use crate::objects::store;
use crate::packing::{Report, options};
use crate::reads::range;

/// Merges the table files with keys of a range.
pub fn compact_range(handle: i64, buffer: &[u8], from_bytes: i32, to_bytes: i32) -> Result<()> {
    Ok(store(handle)?.compact_range::<&[u8]>(range(buffer, from_bytes, to_bytes)?)?)
}

/// All numbers, one a name.
pub fn stats(handle: i64) -> Result<String> {
    Ok(Report::default().with_json("", &reports::stats::json(&store(handle)?.stats())).text())
}

/// All numbers, as JSON.
pub fn stats_json(handle: i64) -> Result<String> {
    Ok(reports::stats::json(&store(handle)?.stats()).to_string())
}

/// The table files, as JSON.
pub fn table_files_json(handle: i64) -> Result<String> {
    let files: serde_json::Value = store(handle)?.table_files().iter().map(reports::stats::json_of_file).collect();
    Ok(files.to_string())
}

/// Checks everything against everything else.
pub fn verify(handle: i64) -> Result<String> {
    let found = store(handle)?.verify(&mut |_| {})?;
    Ok(Report::default()
        .with_all("findings", &found.findings)
        .with("table_files_checked", found.table_files_checked)
        .with("table_bytes_checked", found.table_bytes_checked)
        .with("entries_checked", found.entries_checked)
        .with("index_keys_checked", found.index_keys_checked)
        .with("memtable_entries", found.memtable_entries)
        .text())
}

/// Makes a store that nobody has open whole again.
pub fn repair(path: &Path, option_text: &str) -> Result<String> {
    let made = options(option_text)?.repair(path, &mut |_| {})?;
    Ok(Report::default()
        .with("table_files_checked", made.table_files_checked)
        .with("memtable_entries_saved", made.memtable_entries_saved)
        .with("index_keys", made.index_keys)
        .with_all("pool", made.pool.iter().map(|path| path.display()))
        .with_all("damage", &made.damage)
        .with_all("losses", &made.losses)
        .with_all("set_aside", made.set_aside.iter().map(|path| path.display()))
        .with_all("left_pool", made.left_pool.iter().map(|path| path.display()))
        .text())
}

/// Removes a store that nobody has open, and its pool.
pub fn destroy(path: &Path, option_text: &str) -> Result<String> {
    let destroyed = slmdb::destroy(path, &options(option_text)?)?;
    let pool = match &destroyed.pool {
        PoolFate::None => None,
        PoolFate::Removed(path) => Some(format!("removed {}", path.display())),
        PoolFate::Missing(path) => Some(format!("there was nothing at {}", path.display())),
        PoolFate::Left { path: Some(path), why } => Some(format!("left {}: {why}", path.display())),
        PoolFate::Left { path: None, why } => Some(format!("left it: {why}")),
        // There may be other fates later.
        other => Some(format!("{other:?}")),
    };
    Ok(Report::default()
        .with("files", destroyed.files)
        .with("bytes", destroyed.bytes)
        .with_all("pool", pool)
        .with_all("left", &destroyed.left)
        .with("is_directory_left", destroyed.is_directory_left)
        .text())
}
