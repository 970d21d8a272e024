//! Pacing: the delay that grows with the debt (design.md section 5).
//!
//! When writers are faster than flushes, somebody has to wait. Waiting only when no MemTable is left would make a few
//! writes wait very long; so writers are slowed early, each a little, and the more the further flushes fall behind. The
//! *debt* is what waits for its flush, as part of what may wait: 0 when one MemTable has just begun to wait, 1 when the
//! active MemTable is full and no other may follow it. Up to [`FREE_DEBT`] nobody is slowed. From there on writers may
//! fill memory at a multiple of the rate at which flushes empty it, which falls with the debt and passes 1 well before
//! the end, so that the queue stops growing before it is full.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Up to this debt writers are not slowed.
const FREE_DEBT: f64 = 0.25;
/// (debt, writers' rate as a multiple of the flushes'), in between in straight lines.
const MULTIPLES: [(f64, f64); 3] = [(FREE_DEBT, 4.0), (0.7, 1.0), (1.0, 0.5)];
/// A pause that is due is slept off when it is this long; shorter ones add up first. In nanoseconds.
const SLEEP_NS_MIN: u64 = 25_000;
/// No single write is slowed by more, in nanoseconds.
const SLEEP_NS_MAX: u64 = 5_000_000;

/// The writers' speed limit.
#[derive(Debug, Default)]
pub(crate) struct Pacing {
    /// How fast flushes empty MemTables, smoothed, in bytes per second; 0: not known yet.
    flush_bytes_per_second: AtomicU64,
    /// Nanoseconds that each KiB takes now; 0: no limit.
    ns_per_kib: AtomicU64,
    /// When what was written so far is paid for, on the clock of the environment.
    paid_until_ns: AtomicU64,
}

impl Pacing {
    /// A flush emptied so many bytes in so long.
    pub(crate) fn flushed(&self, bytes: u64, took_ns: u64) {
        let now = (bytes as f64 * 1e9 / took_ns.max(1) as f64) as u64;
        let before = self.flush_bytes_per_second.load(Ordering::Relaxed);
        let smoothed = if before == 0 { now } else { before / 2 + now / 2 };
        self.flush_bytes_per_second.store(smoothed.max(1), Ordering::Relaxed);
    }

    /// The debt has changed. See the module's essay for its measure; below 0 there is none.
    pub(crate) fn set_debt(&self, debt: f64) {
        let flush = self.flush_bytes_per_second.load(Ordering::Relaxed);
        let ns_per_kib = match multiple(debt) {
            Some(multiple) if flush > 0 => (1024e9 / (flush as f64 * multiple)) as u64,
            _ => 0,
        };
        if self.ns_per_kib.load(Ordering::Relaxed) != ns_per_kib {
            self.ns_per_kib.store(ns_per_kib, Ordering::Relaxed);
        }
    }

    /// Whether writers are slowed at all: asked before the clock is.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.ns_per_kib.load(Ordering::Relaxed) > 0
    }

    /// How long the writer of so many bytes has to sleep now, if at all.
    pub(crate) fn pause(&self, bytes: u64, now_ns: u64) -> Option<Duration> {
        let price_ns = bytes.saturating_mul(self.ns_per_kib.load(Ordering::Relaxed)) / 1024;
        let latest_ns = now_ns + SLEEP_NS_MAX;
        let pay = |paid: u64| Some(paid.max(now_ns).saturating_add(price_ns).min(latest_ns));
        let before = self.paid_until_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).unwrap_or(now_ns);
        let due_ns = before.max(now_ns).saturating_add(price_ns).min(latest_ns) - now_ns;
        (due_ns >= SLEEP_NS_MIN).then(|| Duration::from_nanos(due_ns))
    }
}

fn multiple(debt: f64) -> Option<f64> {
    let (first, last) = (MULTIPLES[0], MULTIPLES[MULTIPLES.len() - 1]);
    if debt < first.0 {
        return None;
    }
    let piece = MULTIPLES.windows(2).find(|piece| debt <= piece[1].0);
    Some(piece.map_or(last.1, |piece| {
        let ((from, high), (to, low)) = (piece[0], piece[1]);
        high + (low - high) * (debt - from) / (to - from)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_debt_the_slower() {
        assert_eq!(multiple(-1.0), None);
        assert_eq!(multiple(0.2), None);
        assert_eq!(
            (multiple(0.25), multiple(0.7), multiple(1.0), multiple(7.0)),
            (Some(4.0), Some(1.0), Some(0.5), Some(0.5))
        );
        let falling: Vec<f64> = (25..=100).filter_map(|percent| multiple(f64::from(percent) / 100.0)).collect();
        assert!(falling.windows(2).all(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn writers_get_the_rate_that_the_debt_allows() {
        let pacing = Pacing::default();
        pacing.set_debt(1.0);
        assert!(!pacing.is_limited(), "nobody knows yet how fast flushes are");
        pacing.flushed(100 << 20, 1_000_000_000);
        pacing.set_debt(0.1);
        assert!(!pacing.is_limited());
        pacing.set_debt(0.7);
        // As fast as the flush: 1000 writes of 1 KiB take as long as 1000 KiB take at 100 MiB/s.
        let (mut now_ns, mut slept) = (1, 0);
        for _ in 0..1000 {
            if let Some(pause) = pacing.pause(1024, now_ns) {
                assert!(pause.as_nanos() <= u128::from(SLEEP_NS_MAX));
                now_ns += pause.as_nanos() as u64;
                slept += 1;
            }
        }
        assert!((9_700_000..=9_800_000).contains(&now_ns), "{now_ns}");
        assert!(slept > 200, "in many small pauses, not {slept}");
    }

    #[test]
    fn no_pause_is_long() {
        let pacing = Pacing::default();
        pacing.flushed(1, 1_000_000_000);
        pacing.set_debt(1.0);
        for _ in 0..10 {
            assert!(pacing.pause(1 << 30, 5).is_some_and(|pause| pause.as_nanos() <= u128::from(SLEEP_NS_MAX)));
        }
    }
}
