//! A medium that runs a hook before stores and flushes: to do something at exactly that moment.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use slmdb_pmem::{FlushCounters, Medium};

/// What is about to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A store of this value to the word at this address.
    Store { address: usize, value: u64 },
    /// An attempt to lock a node, or another compare-and-exchange.
    Exchange { address: usize },
    /// A flush.
    Flush,
}

type Hook = Box<dyn FnMut(Event) -> bool + Send>;

/// Another medium, with a hook before its stores and flushes.
#[derive(Clone, Default)]
pub struct Hooked<M: Medium> {
    pub inner: M,
    hook: Arc<Mutex<Option<Hook>>>,
}

impl<M: Medium> Hooked<M> {
    pub fn new(inner: M) -> Hooked<M> {
        Hooked { inner, hook: Arc::default() }
    }

    /// Runs `hook` before every store and flush until it gives `false`. Stores made within it, or by other threads meanwhile, are
    /// not hooked.
    pub fn set(&self, hook: impl FnMut(Event) -> bool + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    pub fn clear(&self) {
        *self.hook.lock().unwrap() = None;
    }

    fn run(&self, event: Event) {
        let taken = self.hook.lock().unwrap().take();
        if let Some(mut hook) = taken
            && hook(event)
        {
            *self.hook.lock().unwrap() = Some(hook);
        }
    }
}

impl<M: Medium> Medium for Hooked<M> {
    fn is_persistent(&self) -> bool {
        self.inner.is_persistent()
    }

    fn store(&self, word: &AtomicU64, value: u64) {
        self.run(Event::Store { address: word.as_ptr().addr(), value });
        self.inner.store(word, value);
    }

    fn compare_exchange(&self, word: &AtomicU64, current: u64, new: u64) -> Result<u64, u64> {
        self.run(Event::Exchange { address: word.as_ptr().addr() });
        self.inner.compare_exchange(word, current, new)
    }

    unsafe fn copy(&self, to: *mut u8, from: &[u8]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.copy(to, from) }
    }

    unsafe fn zero(&self, to: *mut u8, length_bytes: usize) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.zero(to, length_bytes) }
    }

    fn flush(&self, start: *const u8, length_bytes: usize) {
        self.run(Event::Flush);
        self.inner.flush(start, length_bytes);
    }

    fn fence(&self) {
        self.inner.fence();
    }

    fn counters(&self) -> FlushCounters {
        self.inner.counters()
    }

    unsafe fn attach(&self, base: *const u8, length_bytes: usize) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.attach(base, length_bytes) }
    }

    fn detach(&self) {
        self.inner.detach();
    }
}
