//! Reading: the calls that are made often. `buffer` is the thread's: it begins with what Java passes, and the answer comes back there.

use std::ops::Bound;
use std::sync::PoisonError;

use slmdb::{Error, Slice};

use crate::failure::{Failure, Result};
use crate::objects::{self, Object, object, store};
use crate::walk::Walk;

/// What a read answers for a key without a value.
pub const NONE: i64 = -1;

/// The first bytes of a buffer, which Java says it has filled.
#[inline]
pub fn filled(buffer: &[u8], bytes: i32) -> Result<&[u8]> {
    usize::try_from(bytes).ok().and_then(|bytes| buffer.get(..bytes)).ok_or_else(|| out_of_buffer(bytes, buffer.len()))
}

#[cold]
fn out_of_buffer(bytes: i32, capacity: usize) -> Failure {
    Error::invalid(format!("{bytes} bytes were announced in a buffer of {capacity}")).into()
}

/// Two bounds of keys.
type Bounds<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// The same, as a store takes them.
type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A key and what follows it.
#[inline]
pub fn filled_twice(buffer: &[u8], first_bytes: i32, second_bytes: i32) -> Result<(&[u8], &[u8])> {
    let first = filled(buffer, first_bytes)?;
    Ok((first, filled(&buffer[first.len()..], second_bytes)?))
}

/// Two bounds of keys; a negative length is none.
fn bounds(buffer: &[u8], from_bytes: i32, to_bytes: i32) -> Result<Bounds<'_>> {
    let (from, to) = filled_twice(buffer, from_bytes.max(0), to_bytes.max(0))?;
    Ok(((from_bytes >= 0).then_some(from), (to_bytes >= 0).then_some(to)))
}

/// The same, as a store takes them: from the first on, before the second.
pub fn range(buffer: &[u8], from_bytes: i32, to_bytes: i32) -> Result<Range<'_>> {
    let (from, to) = bounds(buffer, from_bytes, to_bytes)?;
    Ok((from.map_or(Bound::Unbounded, Bound::Included), to.map_or(Bound::Unbounded, Bound::Excluded)))
}

/// The length of the key's value, in bytes, which is in the buffer if it fits in; [`NONE`] if there is no value.
#[inline]
pub fn get(handle: i64, buffer: &mut [u8], key_bytes: i32) -> Result<i64> {
    let object = object(handle)?;
    let key = filled(buffer, key_bytes)?;
    let value: Option<Slice> = match &*object {
        Object::Store(db, _) => db.get(key)?,
        Object::Snapshot(snapshot, _) => snapshot.get(key)?,
        Object::Cursor(..) | Object::Shared(..) => return Err(Failure::Closed),
    };
    let Some(value) = value else { return Ok(NONE) };
    if let Some(place) = buffer.get_mut(..value.len()) {
        place.copy_from_slice(&value);
    }
    Ok(value.len() as i64)
}

/// Whether the key has a value.
pub fn contains_key(handle: i64, buffer: &[u8], key_bytes: i32) -> Result<bool> {
    let key = filled(buffer, key_bytes)?;
    match &*object(handle)? {
        Object::Store(db, _) => Ok(db.contains_key(key)?),
        Object::Snapshot(snapshot, _) => Ok(snapshot.contains_key(key)?),
        Object::Cursor(..) | Object::Shared(..) => Err(Failure::Closed),
    }
}

/// A cursor of a store or a snapshot over the keys from the first bound on and before the second.
pub fn cursor(handle: i64, buffer: &[u8], from_bytes: i32, to_bytes: i32, reads_values: bool) -> Result<i64> {
    let (from, to) = bounds(buffer, from_bytes, to_bytes)?;
    let (from, to) = (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec));
    Ok(objects::cursor(handle, |cursor| Walk::new(cursor, from, to, reads_values))? as i64)
}

/// Entries, packed into the buffer: as [`Walk::fetch`].
pub fn fetch(handle: i64, buffer: &mut [u8], way: i32, start: i32, key_bytes: i32) -> Result<i64> {
    let key = filled(buffer, key_bytes)?.to_vec();
    match &*object(handle)? {
        Object::Cursor(walk, _) => {
            let mut walk = walk.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(walk.fetch(way, start, &key, buffer)? as i64)
        }
        Object::Store(..) | Object::Snapshot(..) | Object::Shared(..) => Err(Failure::Closed),
    }
}

/// The number of the last write that a snapshot sees.
pub fn sequence_number(handle: i64) -> Result<i64> {
    match &*object(handle)? {
        Object::Snapshot(snapshot, _) => Ok(snapshot.sequence_number() as i64),
        Object::Store(..) | Object::Cursor(..) | Object::Shared(..) => Err(Failure::Closed),
    }
}

/// About how much is in a range: keys, bytes of table files, bytes of MemTables, 64 bits each, the highest first.
pub fn approximate(handle: i64, buffer: &mut [u8], from_bytes: i32, to_bytes: i32) -> Result<()> {
    let about = store(handle)?.approximate::<&[u8]>(range(buffer, from_bytes, to_bytes)?)?;
    let capacity = buffer.len();
    let place = buffer.first_chunk_mut::<24>().ok_or_else(|| out_of_buffer(24, capacity))?;
    for (place, number) in place.chunks_exact_mut(8).zip([about.keys, about.table_bytes, about.memtable_bytes]) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use slmdb::Options;

    use super::*;

    #[test]
    fn a_value_that_does_not_fit_tells_its_length() {
        let directory = tempfile::tempdir().unwrap();
        let handle = objects::open(&directory.path().join("db"), Options::default(), 0).unwrap() as i64;
        store(handle).unwrap().put("key", [5; 10]).unwrap();
        let mut small = *b"key";
        assert_eq!(get(handle, &mut small, 3).unwrap(), 10);
        let mut large = *b"key_______";
        assert_eq!(get(handle, &mut large, 3).unwrap(), 10);
        assert_eq!(large, [5; 10]);
        assert_eq!(get(handle, &mut large, 3).unwrap(), NONE);
        objects::close(handle).unwrap();
    }

    #[test]
    fn lengths_beyond_the_buffer_are_refused() {
        let buffer = [0; 8];
        for bytes in [-1, 9, i32::MAX, i32::MIN] {
            assert!(filled(&buffer, bytes).is_err());
        }
        for pair in [(8, 1), (1, 8), (-1, 1), (1, -1), (i32::MAX, i32::MAX)] {
            assert!(filled_twice(&buffer, pair.0, pair.1).is_err());
        }
        assert_eq!(bounds(&buffer, -1, 8).unwrap(), (None, Some(&buffer[..])));
        assert_eq!(bounds(&buffer, 0, -5).unwrap(), (Some(&[][..]), None));
        assert!(bounds(&buffer, 4, 5).is_err());
    }
}
