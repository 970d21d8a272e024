//! Writing: the calls that are made often. `buffer` has what Java passes.

use slmdb::{Error, WriteOptions};

use crate::failure::Result;
use crate::objects::store;
use crate::packing;
use crate::reads::{filled, filled_twice, range};

/// A put whatever the key has, in [`put`].
pub const ALWAYS: i32 = 0;
/// A put of a key without a value.
pub const IF_ABSENT: i32 = 1;
/// A put of a key with a value.
pub const IF_PRESENT: i32 = 2;

/// How a write is done: 0 without a sync, 1 with one, else as the store's options say.
fn options(sync: i32) -> WriteOptions {
    match sync {
        0 | 1 => WriteOptions::new().sync(sync == 1),
        _ => WriteOptions::new(),
    }
}

/// Puts a value, always or on a condition. Whether it was put.
pub fn put(handle: i64, buffer: &[u8], key_bytes: i32, value_bytes: i32, condition: i32, sync: i32) -> Result<bool> {
    let (key, value) = filled_twice(buffer, key_bytes, value_bytes)?;
    let (db, options) = (store(handle)?, options(sync));
    match condition {
        ALWAYS => db.put_with(key, value, options).map(|()| true),
        IF_ABSENT => db.insert_if_absent_with(key, value, options),
        IF_PRESENT => db.update_if_present_with(key, value, options),
        other => Err(Error::invalid(format!("{other} is no condition of a put"))),
    }
    .map_err(Into::into)
}

/// Deletes a key.
pub fn delete(handle: i64, buffer: &[u8], key_bytes: i32, sync: i32) -> Result<()> {
    Ok(store(handle)?.delete_with(filled(buffer, key_bytes)?, options(sync))?)
}

/// Deletes all keys of a range.
pub fn delete_range(handle: i64, buffer: &[u8], from_bytes: i32, to_bytes: i32, sync: i32) -> Result<()> {
    let range = range(buffer, from_bytes, to_bytes)?;
    Ok(store(handle)?.delete_range_with::<&[u8]>(range, options(sync))?)
}

/// Writes a packed batch.
pub fn write(handle: i64, buffer: &[u8], batch_bytes: i32, sync: i32) -> Result<()> {
    let db = store(handle)?;
    let batch = packing::batch(filled(buffer, batch_bytes)?)?;
    Ok(db.write_with(&batch, options(sync))?)
}
