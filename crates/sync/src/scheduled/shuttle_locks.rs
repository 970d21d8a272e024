//! Shuttle's locks, but that waits for a time end.
//!
//! Shuttle has no time: a wait for a time ends there when it is notified, or never. Here such a wait lets others go first,
//! and is over; what the time was is gone then ([`super::time`]). That others need longer is as good a run as any.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

use super::thread;

/// As the standard library's.
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

/// As the standard library's.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    held: shuttle::sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// With a value.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    /// Waits until nobody else has it.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        match self.0.lock() {
            Ok(held) => Ok(MutexGuard { mutex: self, held }),
            Err(poisoned) => Err(PoisonError::new(MutexGuard { mutex: self, held: poisoned.into_inner() })),
        }
    }

    /// Takes it if nobody has it.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(held) => Ok(MutexGuard { mutex: self, held }),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => {
                Err(TryLockError::Poisoned(PoisonError::new(MutexGuard { mutex: self, held: poisoned.into_inner() })))
            }
        }
    }

    /// The value, of which nobody else knows.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }

    /// The value.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.held.fmt(formatter)
    }
}

/// As the standard library's.
#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

/// Whether a wait for a time was over because the time was. (Nobody asks.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult;

impl Condvar {
    /// One that nobody waits for.
    pub const fn new() -> Condvar {
        Condvar(shuttle::sync::Condvar::new())
    }

    /// Waits to be notified.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { mutex, held } = guard;
        match self.0.wait(held) {
            Ok(held) => Ok(MutexGuard { mutex, held }),
            Err(poisoned) => Err(PoisonError::new(MutexGuard { mutex, held: poisoned.into_inner() })),
        }
    }

    /// Lets others go first; then the time is over.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let mutex = guard.mutex;
        drop(guard);
        thread::sleep(time);
        match mutex.lock() {
            Ok(guard) => Ok((guard, WaitTimeoutResult)),
            Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), WaitTimeoutResult))),
        }
    }

    /// Likewise, if the condition holds.
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        time: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        if condition(&mut guard) { self.wait_timeout(guard, time) } else { Ok((guard, WaitTimeoutResult)) }
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
