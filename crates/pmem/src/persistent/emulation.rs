//! Emulating the time that persistent memory takes, on memory that is faster. What the models mean, and how true they
//! are, is in `docs/guide/media.md`.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_env::{Error, Result};

use super::clock::{Clock, now, spin_until};

/// The longest latency that makes sense: a millisecond.
const LATENCY_NS_MAX: u64 = 1_000_000;
/// Ticks per byte are kept as an integer with this many binary places.
const PLACES: u32 = 32;

/// What the added latency is counted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LatencyModel {
    /// Each cache line written back takes so long, one after the other: what the emulator of SLM-DB's authors does.
    #[default]
    Line,
    /// Each fence that orders something takes so long, however much it orders: closer to real modules, where write-backs
    /// overlap. Bandwidth is what tells large writes from small ones.
    Persist,
}

/// What is to be emulated. By default nothing: then no time is added, and no instruction executed for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Emulation {
    /// Added latency in nanoseconds, 0 to 1,000,000; of what, the model says.
    pub latency_ns: u64,
    /// What has the latency.
    pub model: LatencyModel,
    /// What the medium can write, in 10^6 bytes a second, for all threads together; counted in whole write units, as a
    /// module does. `None`: no limit.
    pub bandwidth_megabytes_per_second: Option<u64>,
    /// Added latency of each read of the pool that somebody waits for, in nanoseconds, 0 to 1,000,000.
    pub read_latency_ns: u64,
}

impl Emulation {
    /// Whether any time is added.
    pub fn is_nothing(&self) -> bool {
        self.latency_ns == 0 && self.read_latency_ns == 0 && self.bandwidth_megabytes_per_second.is_none()
    }

    /// [`Error::Invalid`] for numbers that make no sense.
    pub fn check(&self) -> Result<()> {
        for (name, latency_ns) in [("latency", self.latency_ns), ("read latency", self.read_latency_ns)] {
            if latency_ns > LATENCY_NS_MAX {
                return Err(Error::invalid(format!(
                    "an added {name} is at most {LATENCY_NS_MAX} ns, not {latency_ns}"
                )));
            }
        }
        if self.bandwidth_megabytes_per_second == Some(0) {
            return Err(Error::invalid("a bandwidth is at least 1 MB/s"));
        }
        Ok(())
    }
}

/// Time that a medium adds, as a type: for [`Undelayed`] nothing of it is left in the program.
pub trait Delay: std::fmt::Debug + Clone + Send + Sync + 'static {
    /// Whether anything is added. Reads are counted only where it is.
    const TAKES_TIME: bool;

    /// So many cache lines began to be written back, and with them so many bytes of the medium.
    fn after_flush(&self, lines: u64, media_bytes: u64);
    /// A fence has ordered something.
    fn after_fence(&self);
    /// Somebody waits for a read.
    fn before_read(&self);
}

/// No time is added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Undelayed;

impl Delay for Undelayed {
    const TAKES_TIME: bool = false;

    #[inline(always)]
    fn after_flush(&self, _lines: u64, _media_bytes: u64) {}

    #[inline(always)]
    fn after_fence(&self) {}

    #[inline(always)]
    fn before_read(&self) {}
}

/// Time is added as an [`Emulation`] says. Clones are one device.
#[derive(Debug, Clone)]
pub struct Delayed(Arc<Device>);

#[derive(Debug)]
struct Device {
    line_ticks: u64,
    fence_ticks: u64,
    read_ticks: u64,
    /// With [`PLACES`] binary places; 0: the bandwidth has no limit.
    ticks_per_byte: u64,
    transfers: Transfers,
}

/// When the device will have written all that it was given, in ticks. A cache line of its own: every thread changes it.
#[derive(Debug)]
#[repr(align(128))]
struct Transfers {
    free_at: AtomicU64,
}

thread_local! {
    /// When everything that this thread has flushed will be written. One word for all media: a thread that uses two at
    /// once waits for the slower.
    static WRITTEN_AT: Cell<u64> = const { Cell::new(0) };
}

impl Delayed {
    /// A device as described. The first one calibrates the clock, which takes 20 ms.
    pub fn new(emulation: &Emulation) -> Delayed {
        let clock = Clock::calibrated();
        let latency_ticks = clock.ticks(emulation.latency_ns as f64) as u64;
        let read_ticks = clock.ticks(emulation.read_latency_ns as f64) as u64;
        let (line_ticks, fence_ticks) = match emulation.model {
            LatencyModel::Line => (latency_ticks, 0),
            LatencyModel::Persist => (0, latency_ticks),
        };
        let ticks_per_byte = emulation.bandwidth_megabytes_per_second.map_or(0, |megabytes| {
            let ns_per_byte = 1000.0 / megabytes as f64;
            ((clock.ticks(ns_per_byte) * f64::from(2.0_f32.powi(PLACES as i32))) as u64).max(1)
        });
        let transfers = Transfers { free_at: AtomicU64::new(0) };
        Delayed(Arc::new(Device { line_ticks, fence_ticks, read_ticks, ticks_per_byte, transfers }))
    }
}

impl Device {
    /// Puts bytes behind what the device has to write already, and says when they will be written.
    fn transfer(&self, bytes: u64) -> u64 {
        let ticks = (u128::from(bytes) * u128::from(self.ticks_per_byte)) >> PLACES;
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        let now = now();
        let mut free_at = self.transfers.free_at.load(Ordering::Relaxed);
        loop {
            let written_at = free_at.max(now).saturating_add(ticks);
            let swapped =
                self.transfers.free_at.compare_exchange_weak(free_at, written_at, Ordering::Relaxed, Ordering::Relaxed);
            match swapped {
                Ok(_) => return written_at,
                Err(other) => free_at = other,
            }
        }
    }
}

impl Delay for Delayed {
    const TAKES_TIME: bool = true;

    fn after_flush(&self, lines: u64, media_bytes: u64) {
        let device = &*self.0;
        if device.ticks_per_byte > 0 {
            WRITTEN_AT.set(WRITTEN_AT.get().max(device.transfer(media_bytes)));
        }
        if device.line_ticks > 0 {
            spin_until(now().saturating_add(lines.saturating_mul(device.line_ticks)));
        }
    }

    fn after_fence(&self) {
        let device = &*self.0;
        let mut until = now();
        if device.ticks_per_byte > 0 {
            until = until.max(WRITTEN_AT.get());
        }
        spin_until(until.saturating_add(device.fence_ticks));
    }

    fn before_read(&self) {
        let device = &*self.0;
        if device.read_ticks > 0 {
            spin_until(now().saturating_add(device.read_ticks));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// The clock may be a little off; the waits are far longer than that.
    fn took_at_least(ns: u64, work: impl FnOnce()) {
        let start = Instant::now();
        work();
        let took = start.elapsed();
        assert!(took >= Duration::from_nanos(ns - ns / 50), "took {took:?}, not {ns} ns");
    }

    fn emulation(latency_ns: u64, model: LatencyModel, bandwidth: Option<u64>) -> Delayed {
        Delayed::new(&Emulation {
            latency_ns,
            model,
            bandwidth_megabytes_per_second: bandwidth,
            ..Emulation::default()
        })
    }

    #[test]
    fn every_read_takes_its_time() {
        let delayed = Delayed::new(&Emulation { read_latency_ns: 2000, ..Emulation::default() });
        took_at_least(5000 * 2000, || (0..5000).for_each(|_| delayed.before_read()));
    }

    #[test]
    fn every_line_takes_its_time() {
        for latency_ns in [100, 500, 2000] {
            let delayed = emulation(latency_ns, LatencyModel::Line, None);
            took_at_least(5000 * latency_ns, || (0..5000).for_each(|_| delayed.after_flush(1, 256)));
            took_at_least(4096 * latency_ns, || delayed.after_flush(4096, 1 << 18));
        }
    }

    #[test]
    fn every_fence_takes_its_time() {
        let delayed = emulation(900, LatencyModel::Persist, None);
        took_at_least(5000 * 900, || {
            for _ in 0..5000 {
                delayed.after_flush(3, 256);
                delayed.after_fence();
            }
        });
    }

    #[test]
    fn all_threads_share_the_bandwidth() {
        for model in [LatencyModel::Line, LatencyModel::Persist] {
            // 4 threads x 10 x 1 MB, at 1000 MB/s.
            let delayed = emulation(0, model, Some(1000));
            took_at_least(40_000_000, || {
                std::thread::scope(|scope| {
                    for _ in 0..4 {
                        scope.spawn(|| {
                            for _ in 0..10 {
                                delayed.after_flush(15_625, 1_000_000);
                                delayed.after_fence();
                            }
                        });
                    }
                });
            });
        }
    }

    #[test]
    fn latency_comes_on_top_of_the_transfer() {
        let delayed = emulation(100_000, LatencyModel::Persist, Some(100));
        took_at_least(10 * (100_000 + 1_000_000), || {
            for _ in 0..10 {
                delayed.after_flush(1_563, 100_000);
                delayed.after_fence();
            }
        });
    }

    #[test]
    fn a_transfer_goes_on_while_the_thread_does_something_else() {
        let delayed = emulation(0, LatencyModel::Persist, Some(1));
        delayed.after_flush(1, 20_000);
        let written_at = WRITTEN_AT.get();
        assert!(written_at > now(), "the flush itself does not wait for 20 ms");
        delayed.after_fence();
        assert!(now() >= written_at);
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        let nothing = Emulation::default();
        assert!(nothing.is_nothing() && nothing.check().is_ok());
        assert!(Emulation { latency_ns: 2000, ..nothing }.check().is_ok());
        assert!(Emulation { latency_ns: LATENCY_NS_MAX + 1, ..nothing }.check().is_err());
        let slow_reads = Emulation { read_latency_ns: LATENCY_NS_MAX + 1, ..nothing }.check().unwrap_err();
        assert!(slow_reads.to_string().contains("read latency"), "{slow_reads}");
        assert!(!Emulation { read_latency_ns: 1, ..nothing }.is_nothing());
        assert!(Emulation { bandwidth_megabytes_per_second: Some(0), ..nothing }.check().is_err());
        assert!(!Emulation { bandwidth_megabytes_per_second: Some(1), ..nothing }.is_nothing());
    }
}
