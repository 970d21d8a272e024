//! Under loom: what is put off is done by the next pin or flush, once all guards are gone that were there when it was put off.
//!
//! Crossbeam's collector waits longer, for two steps of its epoch, so whatever goes wrong with it goes wrong here, too. A
//! reader that comes later sees all that was done before something was put off, as with crossbeam's.
//!
//! A model says whether anything is freed at all ([`free`]); most are about something else, and cheaper without.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::Ordering::AcqRel;

use loom::sync::atomic::AtomicUsize;

/// When what was put off is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Freeing {
    /// Not in this execution.
    #[default]
    Never,
    /// What is promised, once no guard is left that was there.
    Unread,
    /// Without waiting for anybody, which breaks the promise: to see whether a model notices that.
    AtOnce,
}

/// Something to be done later.
struct PutOff {
    /// Guards with lower numbers may be in the way.
    before: u64,
    act: Box<dyn FnOnce()>,
}

/// The collector of this execution. All of loom's threads are on one thread of the system.
#[derive(Default)]
struct Collector {
    freeing: Freeing,
    /// The number of the next guard.
    next: u64,
    pinned: BTreeSet<u64>,
    put_off: Vec<PutOff>,
    /// What guards come and go by: a later guard has seen what earlier ones did.
    turns: Option<Rc<AtomicUsize>>,
}

thread_local! {
    static COLLECTOR: RefCell<Collector> = RefCell::default();
}

/// A new execution begins.
pub(crate) fn reset() {
    // What the last one has put off belongs to threads that are gone.
    std::mem::forget(COLLECTOR.take().put_off);
}

/// From here on, what this execution puts off is done.
pub fn free(when: Freeing) {
    let turns = Rc::new(AtomicUsize::new(0));
    COLLECTOR.with_borrow_mut(|collector| (collector.freeing, collector.turns) = (when, Some(turns)));
}

/// A point at which loom may let another thread go on; what follows it, up to the next, is one step.
fn turn() {
    if let Some(turns) = COLLECTOR.with_borrow(|collector| collector.turns.clone()) {
        turns.fetch_add(1, AcqRel);
    }
}

/// Does what may be done by now.
fn collect() {
    if COLLECTOR.with_borrow(|collector| collector.freeing == Freeing::Never || collector.put_off.is_empty()) {
        return;
    }
    turn();
    let ready: Vec<PutOff> = COLLECTOR.with_borrow_mut(|collector| {
        let oldest = collector.pinned.first().copied().unwrap_or(u64::MAX);
        let (ready, rest) =
            std::mem::take(&mut collector.put_off).into_iter().partition(|put_off| put_off.before <= oldest);
        collector.put_off = rest;
        ready
    });
    ready.into_iter().for_each(|put_off| (put_off.act)());
}

/// As crossbeam's.
pub fn pin() -> Guard {
    collect();
    Guard { number: begin() }
}

/// Somebody comes.
fn begin() -> u64 {
    turn();
    COLLECTOR.with_borrow_mut(|collector| {
        let number = collector.next;
        collector.next += 1;
        collector.pinned.insert(number);
        number
    })
}

/// As crossbeam's.
#[derive(Debug)]
pub struct Guard {
    number: u64,
}

impl Guard {
    /// As crossbeam's.
    pub fn defer<R>(&self, act: impl FnOnce() -> R + Send + 'static) {
        turn();
        let at_once = COLLECTOR.with_borrow(|collector| collector.freeing == Freeing::AtOnce);
        if at_once {
            act();
            return;
        }
        let act = Box::new(|| drop(act()));
        COLLECTOR.with_borrow_mut(|collector| collector.put_off.push(PutOff { before: collector.next, act }));
    }

    /// As crossbeam's.
    pub fn flush(&self) {
        collect();
    }

    /// As crossbeam's.
    pub fn repin(&mut self) {
        self.end();
        self.number = begin();
    }

    /// Somebody is gone.
    fn end(&self) {
        turn();
        COLLECTOR.with_borrow_mut(|collector| collector.pinned.remove(&self.number));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.end();
    }
}
