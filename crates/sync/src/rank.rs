//! The order in which a thread may take locks: see [`Rank`].

/// A lock's place in the order of locks. A thread takes locks in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    /// The lower, the earlier it is taken.
    pub level: u8,
    /// What the lock is called where the order is written down.
    pub name: &'static str,
}

#[cfg(all(debug_assertions, not(any(loom, shuttle))))]
pub(crate) use checked::{Held, Place};
#[cfg(not(all(debug_assertions, not(any(loom, shuttle)))))]
pub(crate) use unchecked::{Held, Place};

#[cfg(all(debug_assertions, not(any(loom, shuttle))))]
mod checked {
    use std::cell::RefCell;

    use super::Rank;

    thread_local! {
        /// The ranked locks that this thread holds.
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    /// Where a lock stands in the order, if it is ranked.
    #[derive(Default)]
    pub(crate) struct Place(Option<Rank>);

    /// Notes that this thread holds a lock, until it is dropped.
    pub(crate) struct Held(Option<Rank>);

    impl Place {
        pub(crate) const fn none() -> Place {
            Place(None)
        }

        pub(crate) fn of(rank: Rank) -> Place {
            Place(Some(rank))
        }

        #[track_caller]
        pub(crate) fn take_in_order(&self) -> Held {
            if let Some(rank) = self.0 {
                let holds =
                    |held: &RefCell<Vec<Rank>>| held.borrow().iter().copied().find(|held| held.level >= rank.level);
                // (What is deferred to a thread's end finds nothing there any more.)
                let before = HELD.try_with(holds).ok().flatten();
                if let Some(before) = before {
                    panic!(
                        "the lock `{}` (rank {}) is taken while this thread holds `{}` (rank {}): see docs/internals/locking.md",
                        rank.name, rank.level, before.name, before.level
                    );
                }
            }
            self.take()
        }

        pub(crate) fn take(&self) -> Held {
            if let Some(rank) = self.0 {
                let _ = HELD.try_with(|held| held.borrow_mut().push(rank));
            }
            Held(self.0)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let Some(rank) = self.0 else { return };
            // (A guard may be dropped while its thread ends.)
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(index) = held.iter().rposition(|held| *held == rank) {
                    held.remove(index);
                }
            });
        }
    }
}

#[cfg(not(all(debug_assertions, not(any(loom, shuttle)))))]
mod unchecked {
    use super::Rank;

    #[derive(Default)]
    pub(crate) struct Place;

    pub(crate) struct Held;

    impl Place {
        pub(crate) const fn none() -> Place {
            Place
        }

        pub(crate) fn of(_rank: Rank) -> Place {
            Place
        }

        #[inline(always)]
        pub(crate) fn take_in_order(&self) -> Held {
            Held
        }

        #[inline(always)]
        pub(crate) fn take(&self) -> Held {
            Held
        }
    }
}

#[cfg(all(test, debug_assertions, not(any(loom, shuttle))))]
mod tests {
    use super::Rank;
    use crate::scheduled::{Condvar, Mutex, thread};

    const FIRST: Rank = Rank { level: 1, name: "first" };
    const SECOND: Rank = Rank { level: 2, name: "second" };

    fn panics(take: impl FnOnce() + Send) -> bool {
        thread::scope(|scope| scope.spawn(take).join().is_err())
    }

    #[test]
    fn locks_taken_in_rising_order_are_fine() {
        let (first, second, other) = (Mutex::ranked(FIRST, 1), Mutex::ranked(SECOND, 2), Mutex::new(3));
        for _ in 0..2 {
            let held = (first.lock(), other.lock(), second.lock());
            assert_eq!((*held.0, *held.1, *held.2), (1, 3, 2));
        }
        let (earlier, later) = (first.lock(), second.lock());
        drop(earlier);
        drop(later);
        drop((second.lock(), first.try_lock()));
        drop(first.lock());
    }

    #[test]
    fn a_wrong_order_panics_though_nobody_else_is_there() {
        let (first, second) = (Mutex::ranked(FIRST, ()), Mutex::ranked(SECOND, ()));
        assert!(panics(|| drop((second.lock(), first.lock()))));
        assert!(panics(|| drop((first.lock(), first.lock()))), "a lock is not taken twice");
        drop((first.lock(), second.lock()));
    }

    #[test]
    fn a_lock_that_is_waited_with_is_held_again() {
        let (first, second, changed) = (Mutex::ranked(FIRST, ()), Mutex::ranked(SECOND, ()), Condvar::new());
        let wait = || changed.wait_timeout(second.lock(), std::time::Duration::from_millis(1));
        assert!(panics(|| drop((wait(), first.lock()))));
    }

    /// What readers leave behind may be freed when their thread ends, under locks.
    #[test]
    fn locks_can_be_taken_while_a_thread_ends() {
        struct AtTheEnd(std::sync::Arc<Mutex<u32>>);
        impl Drop for AtTheEnd {
            fn drop(&mut self) {
                *self.0.lock() += 1;
            }
        }
        thread_local!(static LAST: std::cell::RefCell<Option<AtTheEnd>> = const { std::cell::RefCell::new(None) });
        let lock = std::sync::Arc::new(Mutex::ranked(FIRST, 0));
        let ended = lock.clone();
        let thread = thread::spawn(move || {
            LAST.set(Some(AtTheEnd(ended.clone())));
            // Made after it, so that it is gone before.
            drop(ended.lock());
        });
        thread.join().unwrap();
        assert_eq!(*lock.lock(), 1);
    }

    /// What a panic left is for the store to judge, not for the lock.
    #[test]
    fn a_panic_does_not_keep_others_out() {
        let lock = Mutex::ranked(FIRST, 7);
        assert!(panics(|| {
            let _held = lock.lock();
            panic!("as it is meant");
        }));
        assert_eq!(*lock.lock(), 7);
        assert_eq!(lock.try_lock().map(|value| *value), Some(7));
        assert_eq!(lock.into_inner(), 7);
    }
}
