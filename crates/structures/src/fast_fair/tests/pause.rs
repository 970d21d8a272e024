//! Stops: a hook in every read of a slot, and a medium whose stores wait for leave.

#![cfg_attr(loom, allow(dead_code))] // models need no stops

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Condvar, Mutex};

use slmdb_pmem::{FlushCounters, Medium};
use slmdb_sync::mapped::AtomicU64;
use std::sync::atomic::Ordering;

type Hook = Box<dyn FnOnce()>;

thread_local! {
    /// The hook of this thread, and the number of reads before it runs.
    static HOOK: RefCell<Option<(usize, Hook)>> = const { RefCell::new(None) };
    static GATED: Cell<bool> = const { Cell::new(false) };
}

/// Called by every read of a slot.
pub(in super::super) fn before_slot_read() {
    let due = HOOK.with_borrow_mut(|hook| match hook {
        Some((0, _)) => hook.take(),
        Some((left, _)) => {
            *left -= 1;
            None
        }
        None => None,
    });
    if let Some((_, run)) = due {
        run();
    }
}

/// Runs `read`, and in it, before the slot read number `at`, once, `hook`. Says whether it came to that.
pub(super) fn with_hook(at: usize, hook: impl FnOnce() + 'static, read: impl FnOnce()) -> bool {
    HOOK.set(Some((at, Box::new(hook))));
    read();
    HOOK.take().is_none()
}

/// Plain memory, but the stores of threads that have entered wait for leave.
#[derive(Debug, Clone, Default)]
pub(super) struct Gate {
    state: Arc<(Mutex<GateState>, Condvar)>,
}

#[derive(Debug, Default)]
struct GateState {
    /// Stores that may be done.
    leave: u64,
    /// A store is waiting.
    waiting: bool,
    /// The gated thread is through.
    done: bool,
}

impl Gate {
    /// Runs `write` with its stores gated.
    pub fn run(&self, write: impl FnOnce()) {
        GATED.set(true);
        write();
        GATED.set(false);
        self.change(|state| state.done = true);
    }

    /// Closes the gate for another run.
    pub fn close(&self) {
        self.change(|state| *state = GateState::default());
    }

    /// Lets so many stores through and waits until they are done, or the gated thread is through: then `false`.
    pub fn advance(&self, stores: u64) -> bool {
        self.change(|state| state.leave = stores);
        let (lock, changed) = &*self.state;
        let state = lock.lock().unwrap();
        let state = changed.wait_while(state, |state| !(state.done || state.waiting && state.leave == 0)).unwrap();
        !state.done
    }

    /// Lets everything through.
    pub fn open(&self) {
        self.change(|state| state.leave = u64::MAX);
    }

    fn change(&self, change: impl FnOnce(&mut GateState)) {
        let (lock, changed) = &*self.state;
        change(&mut lock.lock().unwrap());
        changed.notify_all();
    }

    fn wait(&self) {
        let (lock, changed) = &*self.state;
        let mut state = lock.lock().unwrap();
        state.waiting = true;
        changed.notify_all();
        let mut state = changed.wait_while(state, |state| state.leave == 0).unwrap();
        state.waiting = false;
        state.leave -= 1;
    }
}

impl Medium for Gate {
    fn is_persistent(&self) -> bool {
        false
    }

    fn store(&self, word: &AtomicU64, value: u64) {
        if GATED.get() {
            self.wait();
        }
        word.store(value, Ordering::Release);
    }

    fn flush(&self, _start: *const u8, _length_bytes: usize) {}

    fn fence(&self) {}

    fn counters(&self) -> FlushCounters {
        FlushCounters::default()
    }
}
