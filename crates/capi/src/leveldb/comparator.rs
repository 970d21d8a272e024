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
        let name = name.to_str().map_err(|_| missing("has a name that is not UTF-8"))?.to_string();
        Ok(COrder { name, compare, state: functions.state.clone() })
    }
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
