//! Where tests hold a reader up, and let something happen meanwhile. In a store nothing happens there.

/// A place at which a reader can be held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paused {
    /// A point read is about to look into the trees.
    BeforeTrees,
    /// It has looked into them. What they lead to was not read yet, nor were the levels.
    BehindTrees,
    /// A cursor is about to copy its next window.
    BeforeWindow,
}

/// Lets happen what a test wants to happen at this place.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn pause(_: Paused) {}

#[cfg(test)]
pub(crate) use in_tests::{meanwhile, pause};

#[cfg(test)]
mod in_tests {
    use std::cell::RefCell;

    use super::Paused;

    type Act = Box<dyn FnOnce()>;

    thread_local! {
        static NEXT: RefCell<Option<(Paused, Act)>> = RefCell::default();
    }

    /// Holds this thread's next reader up at this place, once, and does this meanwhile.
    pub(crate) fn meanwhile(place: Paused, act: impl FnOnce() + 'static) {
        NEXT.set(Some((place, Box::new(act))));
    }

    pub(crate) fn pause(place: Paused) {
        let is_meant = NEXT.with_borrow(|next| next.as_ref().is_some_and(|(wanted, _)| *wanted == place));
        if is_meant && let Some((_, act)) = NEXT.take() {
            act();
        }
    }
}
