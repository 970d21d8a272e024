//! What shows from inside only: a reader that is held up, and models.
#![allow(clippy::unwrap_used)]

#[cfg(not(loom))]
mod forged;
#[cfg(loom)]
mod models;
#[cfg(not(loom))]
mod pauses;

use std::cell::RefCell;

type Pause = Box<dyn FnOnce()>;

thread_local! {
    static PAUSE: RefCell<Option<Pause>> = RefCell::default();
}

/// Holds this thread's next reader up before it looks at the commit word again, and does this meanwhile.
#[cfg(not(loom))]
fn meanwhile(act: impl FnOnce() + 'static) {
    PAUSE.set(Some(Box::new(act)));
}

pub(super) fn before_second_look() {
    if let Some(act) = PAUSE.take() {
        act();
    }
}
