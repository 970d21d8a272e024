//! [`Store`]: an open store that several Python objects use, until one of them closes it for all.
//!
//! Three rules keep threads from waiting for each other for ever, and a forked process from harming its parent's store:
//!
//! - Whoever waits (for the store, for a lock of this crate) has given up the interpreter's lock first. A comparator takes
//!   that lock from within the store.
//! - Cursors and snapshots of the engine live in a [`Held`], which the store knows: closing it ends them all.
//! - After a fork the child has none of the store's threads. There everything raises, and nothing is closed or freed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, Weak};

use pyo3::prelude::*;

use crate::comparator::PythonComparator;
use crate::errors::{ClosedError, exception};

/// How often this process has been forked from another since the module was loaded.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Every store that may be open, for the end of the interpreter. Only whoever has the interpreter's lock takes this one, and
/// only for a moment, so that a fork never finds it taken.
static OPEN: Mutex<Vec<Weak<Store>>> = Mutex::new(Vec::new());

/// An open store.
pub struct Store {
    /// `None`: closed. Whoever works with the store holds this for reading, so closing waits for them.
    db: RwLock<Option<slmdb::Db>>,
    /// Whether it is closed, or about to be.
    is_closed: AtomicBool,
    comparator: Option<Arc<PythonComparator>>,
    process: Process,
    held: Mutex<HashMap<u64, Weak<dyn End>>>,
    next_held: AtomicU64,
}

/// The process that something was made in.
pub struct Process(u64);

impl Process {
    /// This one.
    pub fn this() -> Process {
        Process(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether this one was forked from it.
    pub fn is_other(&self) -> bool {
        self.0 != GENERATION.load(Ordering::Relaxed)
    }

    /// An error if it is another. `what` was done there.
    pub fn check(&self, what: &str) -> PyResult<()> {
        if !self.is_other() {
            return Ok(());
        }
        Err(ClosedError::new_err(format!(
            "{what} before this process was forked and can't be used here; open stores after a fork"
        )))
    }
}

/// What ends when its store is closed.
trait End: Send + Sync {
    /// Gives back what it holds of the store.
    fn end(&self);
}

/// Something of the engine's (a cursor, a snapshot) that ends when the store is closed, or before.
pub struct Held<T: Send + Sync + 'static> {
    store: Arc<Store>,
    number: u64,
    /// `None`: ended.
    inner: RwLock<Option<T>>,
}

/// Why something could not be done: the store's error, or `None` when what was asked is closed.
pub type Refusal = Option<slmdb::Error>;

impl Store {
    /// Takes over a store that was just opened.
    pub fn new(db: slmdb::Db, comparator: Option<Arc<PythonComparator>>) -> Arc<Store> {
        let store = Arc::new(Store {
            db: RwLock::new(Some(db)),
            is_closed: AtomicBool::new(false),
            comparator,
            process: Process::this(),
            held: Mutex::new(HashMap::new()),
            next_held: AtomicU64::new(0),
        });
        let mut open = lock(&OPEN);
        open.retain(|other| other.strong_count() > 0);
        open.push(Arc::downgrade(&store));
        store
    }

    /// The comparator that orders its keys, if it is not the order of their bytes.
    pub fn comparator(&self) -> Option<&Arc<PythonComparator>> {
        self.comparator.as_ref()
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// An error if it is closed, or another process's.
    pub fn check_open(&self) -> PyResult<()> {
        self.check_process()?;
        if self.is_closed() { Err(closed("store")) } else { Ok(()) }
    }

    /// Works with the store, without the interpreter's lock.
    pub fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&slmdb::Db) -> slmdb::Result<T> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        let done = py.detach(|| read(&self.db).as_ref().ok_or(None).and_then(|db| work(db).map_err(Some)));
        self.judge(py, done, "store")
    }

    /// What was done, or the exception that says why it was not. `what` is what is closed then.
    pub fn judge<T>(&self, py: Python<'_>, done: Result<T, Refusal>, what: &str) -> PyResult<T> {
        if let Some(comparator) = &self.comparator {
            comparator.check(py)?;
        }
        done.map_err(|refusal| refusal.map_or_else(|| closed(what), |error| exception(py, &error)))
    }

    /// Closes it and ends all that is held of it. A closed one stays as it is; so does one of the process that this one was
    /// forked from.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_of_other_process() {
            return Ok(());
        }
        self.is_closed.store(true, Ordering::Release);
        py.detach(|| self.close_detached()).map_err(|error| exception(py, &error))
    }

    fn close_detached(&self) -> slmdb::Result<()> {
        let mut db = write(&self.db);
        let held = std::mem::take(&mut *lock(&self.held));
        held.values().filter_map(Weak::upgrade).for_each(|held| held.end());
        db.take().map_or(Ok(()), slmdb::Db::close)
    }

    /// Keeps something of the engine's that `make` makes.
    pub fn hold<T: Send + Sync>(
        self: &Arc<Store>,
        py: Python<'_>,
        make: impl FnOnce(&slmdb::Db) -> slmdb::Result<T> + Send,
    ) -> PyResult<Arc<Held<T>>> {
        self.run(py, |db| {
            let number = self.next_held.fetch_add(1, Ordering::Relaxed);
            let held = Arc::new(Held { store: self.clone(), number, inner: RwLock::new(Some(make(db)?)) });
            lock(&self.held).insert(number, Arc::downgrade(&held) as Weak<dyn End>);
            Ok(held)
        })
    }

    fn is_of_other_process(&self) -> bool {
        self.process.is_other()
    }

    fn check_process(&self) -> PyResult<()> {
        self.process.check("the store was opened")
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.is_of_other_process() {
            std::mem::forget(self.db.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        } else if !self.is_closed() {
            let closed = without_interpreter(|| self.close_detached());
            if let Err(error) = closed {
                let _ = Python::try_attach(|py| exception(py, &error).write_unraisable(py, None));
            }
        }
    }
}

impl<T: Send + Sync> Held<T> {
    /// The store that it is of.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Whether it is closed, or its store is.
    pub fn is_closed(&self) -> bool {
        self.store.is_closed() || self.inner.try_read().is_ok_and(|inner| inner.is_none())
    }

    /// Works with it, beside others that do, without the interpreter's lock. `what` names it in errors.
    pub fn run<R: Send>(
        &self,
        py: Python<'_>,
        what: &str,
        work: impl FnOnce(&T) -> slmdb::Result<R> + Send,
    ) -> PyResult<R> {
        self.store.check_process()?;
        let done = py.detach(|| read(&self.inner).as_ref().ok_or(None).and_then(|inner| work(inner).map_err(Some)));
        self.store.judge(py, done, what)
    }

    /// Works with it with the interpreter's lock held, if it isn't being closed: what `work` does must not wait. `None` if
    /// `work` says so, or it is closed.
    pub fn run_at_once<R>(&self, work: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        if self.store.is_of_other_process() {
            return None;
        }
        match self.inner.try_read() {
            Ok(inner) => work(inner.as_ref()?),
            Err(TryLockError::Poisoned(inner)) => work(inner.into_inner().as_ref()?),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Gives back what is held. Then everything raises.
    pub fn close(&self, py: Python<'_>) {
        if !self.store.is_of_other_process() {
            py.detach(|| self.end());
        }
    }

    /// Keeps something else of the engine's, made of this.
    pub fn hold<U: Send + Sync>(
        &self,
        py: Python<'_>,
        what: &str,
        make: impl FnOnce(&T) -> slmdb::Result<U> + Send,
    ) -> PyResult<Arc<Held<U>>> {
        let made = self.run(py, what, make)?;
        self.store.hold(py, |_| Ok(made))
    }
}

impl<T: Send + Sync> End for Held<T> {
    fn end(&self) {
        drop(write(&self.inner).take());
    }
}

impl<T: Send + Sync> Drop for Held<T> {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.store.is_of_other_process() {
            std::mem::forget(inner);
            return;
        }
        lock(&self.store.held).remove(&self.number);
        if inner.is_some() {
            without_interpreter(|| drop(inner));
        }
    }
}

/// The store's threads are gone in a forked process: what was opened before is left alone there.
#[pyfunction]
pub fn _forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Closes what is still open while there is an interpreter yet, that a comparator could use.
#[pyfunction]
pub fn _close_all(py: Python<'_>) {
    let open: Vec<_> = std::mem::take(&mut *lock(&OPEN));
    for store in open.iter().filter_map(Weak::upgrade) {
        if let Err(error) = store.close(py) {
            error.write_unraisable(py, None);
        }
    }
}

/// That something is closed.
pub fn closed(what: &str) -> PyErr {
    ClosedError::new_err(format!("the {what} is closed; open another"))
}

/// Does what may wait without the interpreter's lock, whether this thread has it or not.
pub fn without_interpreter<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let mut work = Some(work);
    let done = Python::try_attach(|py| work.take().map(|work| py.detach(work))).flatten();
    match (done, work) {
        (Some(done), _) => done,
        (None, Some(work)) => work(),
        (None, None) => unreachable!("the work was taken, so it was done"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
