//! Imagined time, and chance that is always the same.

use std::cell::Cell;
use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasher, Hasher};
use std::ops::{Add, Sub};
use std::time::Duration;

/// How far time goes on whenever somebody looks at it.
const LOOK: Duration = Duration::from_micros(1);

thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static DRAWN: Cell<u64> = const { Cell::new(0) };
}

/// A new run begins.
pub(crate) fn begin_anew() {
    NOW.set(Duration::ZERO);
    DRAWN.set(0);
}

/// Time goes on.
pub(super) fn go_on(by: Duration) {
    NOW.set(NOW.get() + by);
}

/// As the standard library's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// What time it is imagined to be.
    pub fn now() -> Instant {
        go_on(LOOK);
        Instant(NOW.get())
    }

    /// How long ago that was.
    pub fn elapsed(&self) -> Duration {
        Instant::now() - *self
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0 + duration)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// As the standard library's, but that the first of each run is the same, the second, and so on.
#[derive(Debug, Clone)]
pub struct RandomState(u64);

impl RandomState {
    /// The next.
    #[allow(clippy::new_without_default)] // nobody wants it
    pub fn new() -> RandomState {
        DRAWN.set(DRAWN.get() + 1);
        RandomState(DRAWN.get())
    }
}

impl BuildHasher for RandomState {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}
