//! A clock for waits of some hundred nanoseconds: the processor's time-stamp counter, calibrated once.
//!
//! Reading it costs some ten nanoseconds and no call. It is taken to run at one rate on all processors, as it does
//! on every x86-64 machine of the last fifteen years ("invariant TSC"). Other processors get the system's clock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the counter is watched to learn its rate.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Converts between ticks of [`now`] and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Clock {
    ticks_per_ns: f64,
}

impl Clock {
    /// The clock, calibrated when it is first asked for: that takes 20 ms.
    pub fn calibrated() -> Clock {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(|| {
            let (start, start_ticks) = reading();
            std::thread::sleep(CALIBRATION);
            let (end, end_ticks) = reading();
            let ns = (end - start).as_nanos().max(1) as f64;
            Clock { ticks_per_ns: (end_ticks.saturating_sub(start_ticks).max(1)) as f64 / ns }
        })
    }

    /// So many nanoseconds, in ticks.
    pub fn ticks(self, ns: f64) -> f64 {
        ns * self.ticks_per_ns
    }
}

/// Both clocks at one moment: of several tries the one that took the shortest time, so that no interruption lies between.
fn reading() -> (Instant, u64) {
    let tries = (0..32).map(|_| {
        let before = now();
        let instant = Instant::now();
        let after = now();
        (after - before, (instant, before + (after - before) / 2))
    });
    tries.min_by_key(|&(took, _)| took).map_or_else(|| (Instant::now(), now()), |(_, reading)| reading)
}

/// The present moment, in ticks.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn now() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The present moment, in nanoseconds since the first question.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Waits, busily, until a moment.
#[inline(always)]
pub(super) fn spin_until(ticks: u64) {
    while now() < ticks {}
}
