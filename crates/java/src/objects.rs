//! [`Object`]: what Java's numbers stand for, and how it ends.
//!
//! A store knows its cursors and snapshots. Closing it ends them first, each once no call uses it; only then is the store's `LOCK`
//! free. Whatever else is asked of them afterwards is [`Failure::Closed`].

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use slmdb::{Cursor, Db, Options, Shared, SharedOptions, Snapshot};

use crate::failure::{Failure, Result};
use crate::handles::{Handle, Table, Use};
use crate::walk::Walk;

/// What a number stands for.
pub enum Object {
    /// An open store.
    Store(Db, Arc<Children>),
    /// A store as it was at one moment.
    Snapshot(Snapshot, Arc<Children>),
    /// A cursor. It belongs to one thread at a time; others wait here.
    Cursor(Mutex<Walk>, Arc<Children>),
    /// What stores have in common. They keep it.
    Shared(Arc<Shared>),
}

/// All objects of this process.
static OBJECTS: Table<Object> = Table::new();

/// The cursors and snapshots of a store that have not ended.
#[derive(Default)]
pub struct Children {
    known: Mutex<Known>,
    /// Told when one has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Known {
    /// Whether the store is being closed: then there are no new ones.
    is_closed: bool,
    handles: HashSet<Handle>,
}

impl Children {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one, unless the store is being closed.
    fn add(&self, handle: Handle) -> Result<()> {
        let mut known = self.known();
        if known.is_closed {
            return Err(Failure::Closed);
        }
        known.handles.insert(handle);
        Ok(())
    }

    /// Takes one out that has ended.
    fn remove(&self, handle: Handle) {
        self.known().handles.remove(&handle);
        self.ended.notify_all();
    }

    /// Ends all of them, and waits for those that other threads are ending.
    fn end(&self) {
        let handles: Vec<_> = {
            let mut known = self.known();
            known.is_closed = true;
            known.handles.iter().copied().collect()
        };
        for handle in handles {
            if let Some(child) = OBJECTS.take(handle) {
                drop(child);
                self.remove(handle);
            }
        }
        let mut known = self.known();
        while !known.handles.is_empty() {
            known = self.ended.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The object of that number.
#[inline]
pub fn object(handle: i64) -> Result<Use<Object>> {
    OBJECTS.get(handle as Handle)
}

/// A store while a call uses it.
pub struct StoreInUse(Use<Object>);

impl std::ops::Deref for StoreInUse {
    type Target = Db;

    #[inline]
    fn deref(&self) -> &Db {
        match &*self.0 {
            Object::Store(db, _) => db,
            Object::Snapshot(..) | Object::Cursor(..) | Object::Shared(..) => unreachable!("it was looked at"),
        }
    }
}

/// The store of that number.
#[inline]
pub fn store(handle: i64) -> Result<StoreInUse> {
    let object = object(handle)?;
    if matches!(&*object, Object::Store(..)) { Ok(StoreInUse(object)) } else { Err(Failure::Closed) }
}

/// Makes what stores have in common.
pub fn share(options: SharedOptions) -> Result<Handle> {
    OBJECTS.insert(Object::Shared(Shared::new(options)?))
}

/// Opens a store. `shared` is the number of what it has in common with others, or 0.
pub fn open(path: &Path, options: Options, shared: i64) -> Result<Handle> {
    let options = if shared == 0 { options } else { with_shared(options, shared)? };
    OBJECTS.insert(Object::Store(options.open(path)?, Arc::default()))
}

fn with_shared(options: Options, handle: i64) -> Result<Options> {
    match &*object(handle)? {
        Object::Shared(shared) => Ok(options.shared(shared)),
        Object::Store(..) | Object::Snapshot(..) | Object::Cursor(..) => Err(Failure::Closed),
    }
}

/// Puts in a child of a store.
fn insert_child(child: Object, children: &Children) -> Result<Handle> {
    let handle = OBJECTS.insert(child)?;
    children.add(handle).inspect_err(|_| drop(OBJECTS.take(handle)))?;
    Ok(handle)
}

/// A snapshot of a store.
pub fn snapshot(handle: i64) -> Result<Handle> {
    match &*object(handle)? {
        Object::Store(db, children) => insert_child(Object::Snapshot(db.snapshot()?, Arc::clone(children)), children),
        Object::Snapshot(..) | Object::Cursor(..) | Object::Shared(..) => Err(Failure::Closed),
    }
}

/// A cursor of a store or a snapshot. `make` says what it goes over.
pub fn cursor(handle: i64, make: impl FnOnce(Cursor) -> Walk) -> Result<Handle> {
    let object = object(handle)?;
    let (cursor, children) = match &*object {
        Object::Store(db, children) => (db.cursor()?, children),
        Object::Snapshot(snapshot, children) => (snapshot.cursor()?, children),
        Object::Cursor(..) | Object::Shared(..) => return Err(Failure::Closed),
    };
    insert_child(Object::Cursor(Mutex::new(make(cursor)), Arc::clone(children)), children)
}

/// Ends what the number stands for; a store with its cursors and snapshots. A number that stands for nothing any more is left at
/// that.
pub fn close(handle: i64) -> Result<()> {
    let handle = handle as Handle;
    match OBJECTS.take(handle) {
        None => Ok(()),
        Some(Object::Store(db, children)) => {
            children.end();
            Ok(db.close()?)
        }
        Some(Object::Snapshot(snapshot, children)) => {
            drop(snapshot);
            children.remove(handle);
            Ok(())
        }
        Some(Object::Cursor(walk, children)) => {
            drop(walk);
            children.remove(handle);
            Ok(())
        }
        Some(Object::Shared(shared)) => {
            drop(shared);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::reads;
    use crate::walk::{FORWARD, START};

    fn is_closed<T>(result: Result<T>) -> bool {
        matches!(result, Err(Failure::Closed))
    }

    #[test]
    fn closing_a_store_ends_its_cursors_and_snapshots_and_frees_its_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let store = open(&path, Options::default(), 0).unwrap() as i64;
        super::store(store).unwrap().put("key", "value").unwrap();
        let snapshot = snapshot(store).unwrap() as i64;
        let every = |cursor| Walk::new(cursor, None, None, true);
        let cursors = [store, snapshot].map(|of| cursor(of, every).unwrap() as i64);
        let mut out = [0; 64];
        assert!(cursors.iter().all(|&of| reads::fetch(of, &mut out, FORWARD, START, 0).unwrap() > 0));
        close(store).unwrap();
        close(store).unwrap();
        assert!(is_closed(super::store(store)) && is_closed(object(snapshot)));
        assert!(cursors.iter().all(|&of| is_closed(reads::fetch(of, &mut out, FORWARD, START, 0))));
        assert!(is_closed(cursor(snapshot, every)));
        close(snapshot).unwrap();
        close(open(&path, Options::default(), 0).unwrap() as i64).unwrap();
    }

    #[test]
    fn stores_keep_what_they_share_when_its_number_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let [path, other] = ["db", "other"].map(|name| directory.path().join(name));
        let budget = SharedOptions { memory_budget_bytes: 64 << 20, ..SharedOptions::default() };
        let shared = share(budget).unwrap() as i64;
        let stores = [&path, &other].map(|path| open(path, Options::default(), shared).unwrap() as i64);
        close(shared).unwrap();
        for store in stores {
            let store = super::store(store).unwrap();
            store.put("key", "value").unwrap();
            store.flush().unwrap();
            assert_eq!(store.stats().memory_budget_bytes, 64 << 20);
        }
        close(stores[0]).unwrap();
        assert!(is_closed(open(&path, Options::default(), shared)), "it is no number of anything now");
        assert!(is_closed(open(&path, Options::default(), stores[1])), "nor one of what is shared");
        assert_eq!(super::store(stores[1]).unwrap().get("key").unwrap().as_deref(), Some(b"value".as_slice()));
        close(stores[1]).unwrap();
    }

    #[test]
    fn numbers_of_one_kind_are_none_of_another() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory.path().join("db"), Options::default(), 0).unwrap() as i64;
        let cursor = cursor(store, |cursor| Walk::new(cursor, None, None, true)).unwrap() as i64;
        assert!(is_closed(super::store(cursor)) && is_closed(snapshot(cursor)));
        assert!(is_closed(reads::get(cursor, &mut [], 0)));
        assert!(is_closed(reads::fetch(store, &mut [], FORWARD, START, 0)));
        close(store).unwrap();
    }

    #[test]
    fn a_store_opens_again_at_once_whatever_other_threads_were_doing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        for _ in 0..20 {
            let store = open(&path, Options::default(), 0).unwrap() as i64;
            let ends = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let ends = &ends;
                    scope.spawn(move || {
                        let mut out = [0; 256];
                        while !ends.load(Ordering::Relaxed) {
                            let snapshot = snapshot(store);
                            let of = snapshot.as_ref().map_or(store, |&snapshot| snapshot as i64);
                            let made = cursor(of, |cursor| Walk::new(cursor, None, None, true));
                            if let Ok(made) = made {
                                let _ = reads::fetch(made as i64, &mut out, FORWARD, START, 0);
                                // Some are closed here, some by the store.
                                if thread % 2 == 0 {
                                    close(made as i64).unwrap();
                                }
                            }
                            if let Ok(snapshot) = snapshot {
                                close(snapshot as i64).unwrap();
                            }
                            let _ = super::store(store).map(|db| db.put("key", "value"));
                        }
                    });
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
                close(store).unwrap();
                let again = open(&path, Options::default(), 0).unwrap();
                ends.store(true, Ordering::Relaxed);
                close(again as i64).unwrap();
            });
        }
    }
}
