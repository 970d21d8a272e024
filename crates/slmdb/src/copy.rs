//! A copy of a store that is opened for reading alone, which may bring nothing into table files: entry by entry.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::directory::store_copy::in_new_directory;
use slmdb_engine::{Engine, Listener, Medium, Options, Result, WriteBatch};

use crate::engines;

/// How much is put into the copy at once, in bytes.
const BATCH_BYTES: u64 = 1 << 20;

/// Makes a copy of the store as it is at this moment, with the same engine and order, on `Dram`.
pub(crate) fn by_entries(engine: &dyn Engine, options: &Options, directory: &Path) -> Result<()> {
    in_new_directory(&options.env, directory, |env, directory| {
        let options = Options {
            read_only: false,
            create_if_missing: true,
            engine: engine.stats().engine.parse().ok(),
            medium: Some(Medium::Dram),
            emulation: Default::default(),
            caches_are_persistent: false,
            event_listener: Listener::default(),
            is_copy: true,
            env: Arc::clone(env),
            ..options.clone()
        };
        let copy = (engines::of_store(&options, directory)?.open)(&options, directory, None)?;
        let (mut cursor, mut batch) = (engine.cursor()?, WriteBatch::new());
        cursor.seek_first()?;
        while cursor.valid() {
            let value = cursor.value()?;
            batch.put(cursor.key(), &value)?;
            if batch.byte_len() as u64 >= BATCH_BYTES {
                copy.write(&batch, false)?;
                batch.clear();
            }
            cursor.next()?;
        }
        copy.write(&batch, false)?;
        copy.flush()?;
        copy.close()
    })
}
