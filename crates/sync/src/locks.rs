//! Locks that don't know poison, and that know their place in the order of locks.
//!
//! A thread that panics while it holds a lock has said so already, and what others do about it is for its store to decide. So
//! [`Mutex::lock`] gives the guard and nothing else.
//!
//! Two threads that take the same two locks in different orders may wait for each other for ever. So a lock can have a
//! [`Rank`], and a thread takes ranked locks in rising order only. In builds with debug assertions a wrong order panics, at
//! the first time that it happens and not only when two threads meet. In other builds nothing of this is left.
//!
//! (This file is compiled once for the locks of the standard library or of shuttle, and under loom once more for loom's:
//! `raw` is whichever it is.)

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

use super::raw;
use crate::rank::{Held, Place, Rank};

/// A value that one thread has at a time.
#[derive(Default)]
pub struct Mutex<T> {
    place: Place,
    value: raw::Mutex<T>,
}

/// The value of a [`Mutex`], for as long as it is held.
pub struct MutexGuard<'a, T> {
    value: raw::MutexGuard<'a, T>,
    held: Held,
}

impl<T> Mutex<T> {
    /// A lock that no order is kept for.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { place: Place::none(), value: raw::Mutex::new(value) }
    }

    /// A lock that no order is kept for.
    #[cfg(loom)]
    pub fn new(value: T) -> Mutex<T> {
        Mutex { place: Place::none(), value: raw::Mutex::new(value) }
    }

    /// A lock with a place in the order of locks.
    pub fn ranked(rank: Rank, value: T) -> Mutex<T> {
        Mutex { place: Place::of(rank), value: raw::Mutex::new(value) }
    }

    /// Waits until nobody else holds the lock, and takes it.
    ///
    /// # Panics
    /// With debug assertions, if this thread holds a lock of the same or a higher rank.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = self.place.take_in_order();
        MutexGuard { value: self.value.lock().unwrap_or_else(PoisonError::into_inner), held }
    }

    /// Takes the lock if nobody else holds it. No order is kept, because nothing waits here.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { value, held: self.place.take() })
    }

    /// The value, which nobody else can see.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(formatter)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(formatter)
    }
}

/// Where threads wait for something that a lock protects.
#[derive(Debug, Default)]
pub struct Condvar(raw::Condvar);

impl Condvar {
    /// One that nobody waits at.
    #[cfg(not(loom))]
    pub const fn new() -> Condvar {
        Condvar(raw::Condvar::new())
    }

    /// One that nobody waits at.
    #[cfg(loom)]
    pub fn new() -> Condvar {
        Condvar(raw::Condvar::new())
    }

    /// Waits to be notified.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let MutexGuard { value, held } = guard;
        MutexGuard { value: self.0.wait(value).unwrap_or_else(PoisonError::into_inner), held }
    }

    /// Waits for as long as the condition holds.
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait(guard);
        }
        guard
    }

    /// Waits to be notified, but no longer than this.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, time: Duration) -> MutexGuard<'a, T> {
        let MutexGuard { value, held } = guard;
        let (value, _) = self.0.wait_timeout(value, time).unwrap_or_else(PoisonError::into_inner);
        MutexGuard { value, held }
    }

    /// Waits for as long as the condition holds, but no longer than this.
    #[cfg(not(loom))]
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let MutexGuard { value, held } = guard;
        let (value, _) = self.0.wait_timeout_while(value, time, condition).unwrap_or_else(PoisonError::into_inner);
        MutexGuard { value, held }
    }

    /// One waiter goes on.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// All waiters go on.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
