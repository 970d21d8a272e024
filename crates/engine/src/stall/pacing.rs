//! Pacing: the delay that grows with the debt.
//!
//! When writers are faster than flushes, they must wait. Waiting only when no MemTable is left would make a few writes
//! wait very long. So all writers are slowed early and a little, and the more the further flushes fall behind. The
//! *debt* is what waits for its flush, as part of what may wait: 0 when one MemTable has just begun to wait, 1 when the
//! active MemTable is full and no other may follow it. Below `FLUSH`'s first debt no writer is slowed. From there on
//! writers may fill memory at a multiple of the rate at which flushes empty it. The multiple falls with the debt and
//! passes 1 well before the end, so that the queue stops growing before it is full. Close to the end it falls to a tenth:
//! who has to wait for room waits for all that is left of a flush.
//!
//! Compactions slow writers likewise, but never stop them. How far they do is the engine's choice
//! (`set_compaction_pace`): a multiple of the rate at which the running compactions remove garbage, over the part of
//! what is written that makes some. So writers that only add keys are not slowed. Until the first compaction has ended,
//! that rate is estimated from the flushes'. The slower of the two paces holds.
//!
//! In an engine whose compactions pay off another debt than garbage, that debt takes its place here. LAB-DB's is what level 0
//! has: new keys make it, and chunks that go to level 1 pay it off.
//!
//! Pauses add up until they are worth a sleep. A sleep of some microseconds takes a tenth of a millisecond, because the
//! system's timers are coarse, and it costs two changes of threads. Few long sleeps leave nearly all puts alone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::stall::stall_stats::StallCause;

/// (debt, writers' rate as a multiple of the rate that pays it off), linear in between. Below the first debt writers
/// are not slowed.
type Multiples = [(f64, f64)];
const FLUSH: &Multiples = &[(0.25, 4.0), (0.7, 1.0), (0.9, 0.5), (1.0, 0.1)];
/// Until it is known, a compaction is taken to remove garbage at this multiple of the rate at which flushes empty
/// memory.
const REMOVED_PER_FLUSHED: f64 = 0.2;
/// Shortest sleep of small writes, in nanoseconds; shorter pauses add up first.
const SLEEP_NS_MIN: u64 = 3_000_000;
/// A sleep is shared by so many writes at least. Where it would be fewer, because they are large, each sleeps for
/// itself from the shorter time on: half a dozen sleeps of 3 ms are no better than many short ones.
const SHARED_BY: u64 = 64;
const SLEEP_ALONE_NS_MIN: u64 = 100_000;
/// The most that oversleeping (by the clock tick, or while others had the processor) is credited to the next writes, in
/// nanoseconds.
const CREDIT_NS_MAX: u64 = 2_000_000;
/// The most that one write is slowed, in nanoseconds.
const SLEEP_NS_MAX: u64 = 4_500_000;

/// How much older flushes count for the rate at which they make garbage.
const GARBAGE_KEPT_PART: f64 = 0.5;
/// A longer time between two flushes counts as this long, in nanoseconds: a pause says nothing about the next writes.
const BETWEEN_FLUSHES_NS_MAX: u64 = 1_000_000_000;

/// One of the two debts that slow writers, or another rate.
#[derive(Debug, Default)]
struct Limit {
    /// How much of the debt was paid off in how much time, older amounts counting less. 0: not known yet.
    paid_bytes: AtomicU64,
    paid_ns: AtomicU64,
    /// Nanoseconds per KiB. 0: no limit.
    ns_per_kib: AtomicU64,
}

impl Limit {
    /// Counts a payment. `kept_part`: how much earlier payments still count.
    fn paid_off(&self, bytes: u64, took_ns: u64, kept_part: f64) {
        for (sum, more) in [(&self.paid_bytes, bytes), (&self.paid_ns, took_ns.max(1))] {
            sum.store((sum.load(Ordering::Relaxed) as f64 * kept_part) as u64 + more, Ordering::Relaxed);
        }
    }

    /// Bytes per second. 0: not known yet.
    fn rate(&self) -> f64 {
        let [bytes, ns] = [&self.paid_bytes, &self.paid_ns].map(|sum| sum.load(Ordering::Relaxed) as f64);
        if ns > 0.0 { bytes.max(1.0) * 1e9 / ns } else { 0.0 }
    }

    /// Writers get this multiple of `rate`: bytes per second at which the debt is paid off, if all that is written adds
    /// to it. `None`: no limit.
    fn set(&self, multiple: Option<f64>, rate: f64) {
        let ns_per_kib = match multiple {
            Some(multiple) if rate > 0.0 => (1024e9 / (rate * multiple)) as u64,
            _ => 0,
        };
        if self.ns_per_kib.load(Ordering::Relaxed) != ns_per_kib {
            self.ns_per_kib.store(ns_per_kib, Ordering::Relaxed);
        }
    }
}

/// The writers' speed limit.
#[derive(Debug, Default)]
pub struct Pacing {
    flush: Limit,
    /// The rate of one compaction while it runs.
    compaction: Limit,
    /// How fast a compaction writes while it runs. No limit.
    rewritten: Limit,
    /// How fast flushes make garbage in table files. No limit.
    garbage: Limit,
    /// When the last flush was indexed, on the environment's clock.
    flushed_ns: AtomicU64,
    /// Fewer compactions run than may.
    has_idle_compaction_thread: AtomicBool,
    /// Of a million flushed entries, how many make work for compactions, smoothed.
    debt_per_million: AtomicU64,
    /// When what was written so far is paid for, on the environment's clock.
    paid_until_ns: AtomicU64,
}

impl Pacing {
    /// Counts a flush: the bytes that it emptied, and its time.
    pub fn flushed(&self, bytes: u64, took_ns: u64) {
        self.flush.paid_off(bytes, took_ns, 0.5);
    }

    /// Bytes a second that flushes empty while they run. 0: not known yet.
    pub fn flush_rate(&self) -> f64 {
        self.flush.rate()
    }

    /// Counts the entries of a flush, how many of them made work for compactions, and the file's bytes. What makes work is the
    /// engine's to say: an entry that replaces one in a table file, or a new key of level 0.
    pub fn debt_made(&self, made: u64, entries: u64, file_bytes: u64, now_ns: u64) {
        let part = made.min(entries) as f64 / entries.max(1) as f64;
        let before_ns = self.flushed_ns.swap(now_ns, Ordering::Relaxed);
        let since_ns = now_ns.saturating_sub(before_ns).min(BETWEEN_FLUSHES_NS_MAX);
        self.garbage.paid_off((file_bytes as f64 * part) as u64, since_ns, GARBAGE_KEPT_PART);
        let now = (part * 1e6) as u64;
        let before = self.debt_per_million.load(Ordering::Relaxed);
        self.debt_per_million.store((before + now) / 2, Ordering::Relaxed);
    }

    /// The part of what is written that makes work for compactions, as the last flushes found.
    pub fn debt_part(&self) -> f64 {
        self.debt_per_million.load(Ordering::Relaxed) as f64 / 1e6
    }

    /// Counts a compaction for garbage: the bytes of garbage that it removed, those that it wrote, and its time.
    pub fn debt_paid(&self, removed_bytes: u64, written_bytes: u64, took_ns: u64) {
        self.compaction.paid_off(removed_bytes, took_ns, 0.875);
        self.rewritten.paid_off(written_bytes, took_ns, 0.875);
    }

    /// Bytes of garbage that flushes make while a compaction writes a byte. `None`: not known yet.
    pub fn garbage_per_rewritten(&self, now_ns: u64) -> Option<f64> {
        let garbage = &self.garbage;
        let [bytes, ns] = [&garbage.paid_bytes, &garbage.paid_ns].map(|sum| sum.load(Ordering::Relaxed));
        // The longer the last flush is ago, the slower writers are.
        let since_ns = now_ns.saturating_sub(self.flushed_ns.load(Ordering::Relaxed));
        let rewritten = self.rewritten.rate();
        (ns > 0 && rewritten > 0.0).then(|| bytes as f64 * 1e9 / ns.max(since_ns) as f64 / rewritten)
    }

    /// Whether the rate at which compactions remove garbage is known.
    pub fn knows_compactions(&self) -> bool {
        self.compaction.rate() > 0.0
    }

    /// Sets the debt of flushes, by the measure of the module's essay. Negative: none.
    pub fn set_flush_debt(&self, debt: f64) {
        self.flush.set(multiple(FLUSH, debt), self.flush.rate());
    }

    /// Writers may make garbage at this multiple of the rate at which the compactions that run remove it, `running` of
    /// `threads`. `None`: compactions slow nobody.
    pub fn set_compaction_pace(&self, multiple: Option<f64>, running: usize, threads: usize) {
        self.has_idle_compaction_thread.store(running < threads, Ordering::Relaxed);
        let removed_by_one = match self.compaction.rate() {
            0.0 => self.flush.rate() * REMOVED_PER_FLUSHED,
            known => known,
        };
        let removed = removed_by_one * running.max(1) as f64;
        match self.debt_per_million.load(Ordering::Relaxed) {
            0 => self.compaction.set(None, 0.0),
            replacing => self.compaction.set(multiple, removed * 1e6 / replacing as f64),
        }
    }

    /// Whether fewer compactions run than may.
    pub fn has_idle_compaction_thread(&self) -> bool {
        self.has_idle_compaction_thread.load(Ordering::Relaxed)
    }

    /// Whether writers are slowed at all. Checked before the clock is read.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.ns_per_kib().0 > 0
    }

    /// Whether writers are slowed for flushes ([`StallCause::Pace`]) or for compactions.
    pub fn is_limited_by(&self, waits_for: StallCause) -> bool {
        let limit = if waits_for == StallCause::Compaction { &self.compaction } else { &self.flush };
        limit.ns_per_kib.load(Ordering::Relaxed) > 0
    }

    /// The price of a KiB now, and what it is for.
    fn ns_per_kib(&self) -> (u64, StallCause) {
        let flush = self.flush.ns_per_kib.load(Ordering::Relaxed);
        let compaction = self.compaction.ns_per_kib.load(Ordering::Relaxed);
        if compaction > flush { (compaction, StallCause::Compaction) } else { (flush, StallCause::Pace) }
    }

    /// How long the writer of `bytes` must sleep now, if at all, and what for.
    pub fn pause(&self, bytes: u64, now_ns: u64) -> Option<(Duration, StallCause)> {
        let (ns_per_kib, waits_for) = self.ns_per_kib();
        let price_ns = bytes.saturating_mul(ns_per_kib) / 1024;
        let (earliest_ns, latest_ns) = (now_ns.saturating_sub(CREDIT_NS_MAX), now_ns + SLEEP_NS_MAX);
        let with_this = |paid_ns: u64| paid_ns.max(earliest_ns).saturating_add(price_ns).min(latest_ns);
        let pay = |paid_ns: u64| Some(with_this(paid_ns));
        let before_ns = self.paid_until_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).unwrap_or(now_ns);
        let due_ns = with_this(before_ns).saturating_sub(now_ns);
        let worth_ns = if price_ns <= SLEEP_NS_MIN / SHARED_BY { SLEEP_NS_MIN } else { SLEEP_ALONE_NS_MIN };
        (due_ns >= worth_ns).then(|| (Duration::from_nanos(due_ns), waits_for))
    }
}

/// The writers' multiple at this debt. `None`: they are not slowed.
pub fn multiple(multiples: &[(f64, f64)], debt: f64) -> Option<f64> {
    let (first, last) = (multiples[0], multiples[multiples.len() - 1]);
    if debt < first.0 {
        return None;
    }
    let piece = multiples.windows(2).find(|piece| debt <= piece[1].0);
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
        assert_eq!(multiple(FLUSH, -1.0), None);
        assert_eq!(multiple(FLUSH, 0.2), None);
        assert_eq!(
            (multiple(FLUSH, 0.25), multiple(FLUSH, 0.7), multiple(FLUSH, 0.9), multiple(FLUSH, 7.0)),
            (Some(4.0), Some(1.0), Some(0.5), Some(0.1))
        );
        let falling: Vec<f64> = (25..=100).filter_map(|percent| multiple(FLUSH, f64::from(percent) / 100.0)).collect();
        assert!(falling.windows(2).all(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn writers_get_the_rate_that_the_debt_allows() {
        let pacing = Pacing::default();
        pacing.set_flush_debt(1.0);
        assert!(!pacing.is_limited(), "nobody knows yet how fast flushes are");
        pacing.flushed(100 << 20, 1_000_000_000);
        pacing.set_flush_debt(0.1);
        assert!(!pacing.is_limited());
        pacing.set_flush_debt(0.7);
        // As fast as the flush: 1000 writes of 1 KiB take as long as 1000 KiB take at 100 MiB/s.
        let (mut now_ns, mut slept) = (1, 0);
        for _ in 0..1000 {
            if let Some((pause, StallCause::Pace)) = pacing.pause(1024, now_ns) {
                assert!(pause.as_nanos() <= u128::from(SLEEP_NS_MAX));
                now_ns += pause.as_nanos() as u64;
                slept += 1;
            }
        }
        // What is left at the end is not worth a sleep.
        assert!((6_000_000..=9_800_000).contains(&now_ns), "{now_ns}");
        assert!((2..=3).contains(&slept), "in few pauses, not {slept}");
    }

    /// A sleep is longer than it was to be: by 60 microseconds or so, as a rule. Writers were slowed to a quarter for
    /// that.
    #[test]
    fn who_sleeps_too_long_is_not_slowed_for_it() {
        let pacing = Pacing::default();
        pacing.flushed(100 << 20, 1_000_000_000);
        pacing.set_flush_debt(0.7);
        let mut now_ns = 1_000_000_000;
        let (began_ns, mut pauses) = (now_ns, 0);
        for _ in 0..10_000 {
            if let Some((pause, _)) = pacing.pause(1024, now_ns) {
                now_ns += pause.as_nanos() as u64 + 60_000;
                pauses += 1;
            }
        }
        let took_ms = (now_ns - began_ns) as f64 / 1e6;
        assert!((95.0..=98.0).contains(&took_ms), "10 MB at 100 MiB/s in {took_ms} ms, {pauses} pauses");
    }

    /// Sleeps of milliseconds for every tenth put would make the hundredth slowest slower, and none quicker.
    #[test]
    fn large_puts_sleep_for_themselves_and_shortly() {
        let pacing = Pacing::default();
        pacing.flushed(100 << 20, 1_000_000_000);
        pacing.set_flush_debt(0.7);
        let (mut now_ns, mut longest) = (1_000_000_000, Duration::ZERO);
        for _ in 0..1000 {
            if let Some((pause, _)) = pacing.pause(16 << 10, now_ns) {
                longest = longest.max(pause);
                now_ns += pause.as_nanos() as u64;
            }
        }
        assert!(longest < Duration::from_micros(200), "{longest:?}");
    }

    #[test]
    fn no_pause_is_long() {
        let pacing = Pacing::default();
        pacing.flushed(1, 1_000_000_000);
        pacing.set_flush_debt(1.0);
        for _ in 0..10 {
            assert!(pacing.pause(1 << 30, 5).is_some_and(|(pause, _)| pause.as_nanos() <= u128::from(SLEEP_NS_MAX)));
        }
    }

    /// Puts of 1 KiB at half of the rate that writers want: every second microsecond is slept away.
    #[test]
    fn of_a_thousand_small_puts_no_more_than_two_sleep() {
        let pacing = Pacing::default();
        pacing.flushed(100 << 20, 1_000_000_000);
        pacing.set_flush_debt(0.7);
        let (mut now_ns, mut pauses) = (1_000_000_000, 0);
        for _ in 0..100_000 {
            now_ns += 1024e9 as u64 / (200 << 20);
            if let Some((pause, _)) = pacing.pause(1024, now_ns) {
                assert!(pause.as_nanos() <= u128::from(SLEEP_NS_MAX));
                now_ns += pause.as_nanos() as u64;
                pauses += 1;
            }
        }
        assert!((50..200).contains(&pauses), "{pauses}");
    }

    #[test]
    fn the_slower_pace_holds() {
        let pacing = Pacing::default();
        pacing.flushed(100 << 20, 1_000_000_000);
        pacing.set_compaction_pace(Some(1.0), 1, 2);
        assert!(!pacing.is_limited(), "nothing that is written makes garbage");
        (0..30).for_each(|turn| pacing.debt_made(50, 100, 1000, turn));
        pacing.set_compaction_pace(Some(1.0), 1, 2);
        let guessed_ns = 1024e9 / (f64::from(100 << 20) * REMOVED_PER_FLUSHED / 0.5);
        assert!(pacing.ns_per_kib().0.abs_diff(guessed_ns as u64) < 10, "half of what is written makes garbage");
        pacing.debt_paid(25 << 20, 25 << 20, 1_000_000_000);
        pacing.set_compaction_pace(None, 1, 2);
        assert!(!pacing.is_limited() && pacing.has_idle_compaction_thread());
        pacing.set_compaction_pace(Some(1.0), 2, 2);
        let of_two_ns = pacing.ns_per_kib().0;
        assert!(!pacing.has_idle_compaction_thread());
        pacing.set_compaction_pace(Some(1.0), 1, 2);
        assert!(pacing.ns_per_kib().0.abs_diff(2 * of_two_ns) < 10, "two remove twice as much");
        assert!(pacing.is_limited_by(StallCause::Compaction) && !pacing.is_limited_by(StallCause::Pace));
        pacing.set_flush_debt(0.7);
        let (pause, waits_for) = pacing.pause(200 << 10, 1).unwrap();
        assert_eq!((pause.as_micros(), waits_for), (3906, StallCause::Compaction));
        pacing.set_compaction_pace(None, 0, 2);
        let (_, waits_for) = pacing.pause(100 << 10, 1).unwrap();
        assert_eq!(waits_for, StallCause::Pace);
    }

    #[test]
    fn the_rate_of_garbage_fades_without_flushes() {
        let pacing = Pacing::default();
        assert_eq!(pacing.garbage_per_rewritten(7), None);
        pacing.debt_paid(50 << 20, 50 << 20, 1_000_000_000);
        // 64 MiB a half second, three quarters of it instead of others: 96 MiB a second.
        let mut now_ns = 0;
        for _ in 0..20 {
            now_ns += 500_000_000;
            pacing.debt_made(75, 100, 64 << 20, now_ns);
        }
        let ratio = |later_ns: u64| pacing.garbage_per_rewritten(now_ns + later_ns).unwrap();
        assert!((ratio(0) - 96.0 / 50.0).abs() < 0.01, "{}", ratio(0));
        assert!((ratio(10_000_000_000) - 0.192).abs() < 0.01, "a tenth in ten times the time");
    }
}
