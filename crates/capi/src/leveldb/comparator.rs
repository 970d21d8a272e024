//! `leveldb_comparator_t`: an order of keys by the caller's functions.

use std::ffi::{CStr, c_void};
use std::sync::{Arc, Weak};

use slmdb::Error;

use crate::common::arguments::{give_back, make};
use crate::common::failure::Result;
use crate::common::order::{COrder, Compare, Destroy, State};
use crate::leveldb::filter_policy::Name;

/// A comparator. Its `destructor` is called when it was given back and no open store uses it any more.
pub struct leveldb_comparator_t(Arc<Functions>);

/// The caller's functions.
pub(super) struct Functions {
    state: Arc<State>,
    compare: Option<Compare>,
    name: Option<Name>,
}

/// A reference to a comparator. It does not keep it: options may outlive what they refer to.
#[derive(Clone)]
pub(super) struct ComparatorReference(Weak<Functions>);

impl ComparatorReference {
    pub(super) fn of(comparator: &leveldb_comparator_t) -> ComparatorReference {
        ComparatorReference(Arc::downgrade(&comparator.0))
    }

    /// The order of keys, for a store that is to be opened.
    ///
    /// Error: the comparator was given back, or lacks a function or a name.
    pub(super) fn order(&self) -> Result<COrder> {
        let missing = |what: &str| Error::invalid(format!("the comparator {what}"));
        let functions = self.0.upgrade().ok_or_else(|| missing("was destroyed before the store was opened with it"))?;
        let compare = functions.compare.ok_or_else(|| missing("has no function that compares"))?;
        let name = functions.name.ok_or_else(|| missing("has no function that names it"))?;
        // SAFETY: CALLBACK.
        let name = unsafe { name(functions.state.pointer) };
        if name.is_null() {
            return Err(missing("has a null pointer as its name").into());
        }
        // SAFETY: CALLBACK; a name ends with a zero byte.
        let name = unsafe { CStr::from_ptr(name) };
        let name = recorded_name(name.to_bytes());
        Ok(COrder { name, compare, state: functions.state.clone() })
    }
}

/// What begins a name that is not recorded as it is.
const ENCODED: &str = "leveldb:";

/// The bytes of an encoded name that are kept whole, so that it stays below slmdb's limit of 255.
const KEPT_BYTES: usize = 200;

/// The name by which slmdb remembers a comparator. LevelDB takes every name, slmdb only those of 1 to 255 bytes of UTF-8
/// that don't begin with `bytewise`. All others are escaped, and those too long are cut and end with a hash of the whole.
fn recorded_name(name: &[u8]) -> String {
    let is_taken = |name: &&str| name.is_empty() || name.starts_with("bytewise") || name.starts_with(ENCODED);
    let plain = std::str::from_utf8(name).ok().filter(|plain| plain.len() <= 255 && !is_taken(plain));
    if let Some(plain) = plain {
        return plain.to_string();
    }
    let escaped = name.escape_ascii().to_string();
    if escaped.len() <= KEPT_BYTES {
        return format!("{ENCODED}{escaped}");
    }
    format!("{ENCODED}{}:{:016x}", &escaped[..KEPT_BYTES], hash(name))
}

/// FNV-1a. A store remembers it, so it never changes.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A comparator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Option<Destroy>,
    compare: Option<Compare>,
    name: Option<Name>,
) -> *mut leveldb_comparator_t {
    let state = Arc::new(State { pointer: state, destroy: destructor });
    make(leveldb_comparator_t(Arc::new(Functions { state, compare, name })))
}

/// Gives it back; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_comparator_destroy(comparator: *mut leveldb_comparator_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(comparator) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_leveldb_is_recorded_as_one_of_slmdb() {
        let long = [b'x'; 1000];
        let mut other = long;
        other[999] = b'y';
        let names: [&[u8]; 12] = [
            b"foo",
            "\u{e9}t\u{e9}".as_bytes(),
            b"",
            b"bytewise",
            b"leveldb.BytewiseComparator",
            b"leveldb:",
            b"leveldb:bytewise",
            b"\xff",
            b"\\xff",
            &long[..255],
            &long,
            &other,
        ];
        let recorded = names.map(recorded_name);
        for (at, name) in recorded.iter().enumerate() {
            assert!((1..=255).contains(&name.len()) && !name.starts_with("bytewise"), "{name}");
            assert!(!recorded[..at].contains(name), "{name} stands for two");
        }
        assert_eq!(recorded[0], "foo");
        assert_eq!(recorded[2..4], ["leveldb:", "leveldb:bytewise"]);
        assert_eq!(recorded[10][208..], format!(":{:016x}", hash(&long)));
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
