//! Seals: the checksums of a pool closed clean.
//!
//! Each extent's checksum goes into its map entry; then state word *turning*, boot id zero, state word *clean*, in one
//! cache line and so durable in that order. Header and maps are extents like any other; where a checksum would have to
//! cover itself, or the words that turn, it reads them as zero. State word and boot id have checks of their own, so every
//! byte that means anything is covered.
//!
//! What a checksum covers has to be durable before the state word says *clean*, with the words in it that nobody flushes, such
//! as locks, and with what a killed process left behind what was written since. So extents are flushed whole where that matters.
//!
//! The next opening verifies all seals, at some GB/s. While the pool is open they mean nothing, and nobody keeps them.
//!
//! An extent that checks itself ([`ExtentKind::checks_itself`]) may hold most of a large store, so that a close must not depend on its
//! length. Its content is neither written back nor read: its seal is that of no bytes. Its maker made it durable. An
//! [image](super::image) is copied whole in any case, and is not durable, so its seals cover everything.

use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_sync::mapped::AtomicU64;

use super::extents::Walk;
use super::open_pool::{Backing, Pool};
use crate::extent::{Extent, ExtentKind};
use crate::layout::{BOOT_ID_OFFSET, STATE_OFFSET, State, UNIT_BYTES, seal_word};
use crate::medium::Medium;

impl<M: Medium> Pool<M> {
    /// The clean close: a checksum over each extent, then the state word. Durable on return; the file is synced too, so
    /// what was closed clean survives a power cut on every medium whose file does. Nothing may be written during or after
    /// it; allocating and freeing are refused from here on. Does nothing in a pool opened read-only.
    ///
    /// The content of extents that check themselves is left out, and must be durable by now.
    ///
    /// After an error the pool is one that was not closed clean.
    pub fn seal(&self) -> Result<()> {
        self.seal_with(|extent| self.sealed_crc(extent))
    }

    /// As [`Pool::seal`], with the checksum that an extent gets.
    pub(super) fn seal_with(&self, crc: impl Fn(&Extent) -> u32) -> Result<()> {
        if matches!(self.backing, Backing::ReadOnly) {
            return Ok(());
        }
        let mut space = self.space();
        let Walk { extents, faults } = self.walk();
        if let Some(fault) = faults.into_iter().next() {
            return Err(fault);
        }
        space.ended = true;
        // The maps come last, because they hold the seals of all others.
        let (maps, others): (Vec<Extent>, Vec<Extent>) =
            extents.into_iter().partition(|extent| extent.kind == ExtentKind::Map);
        for extent in others.iter().chain(&maps) {
            if !extent.kind.checks_itself() {
                self.flush_whole(extent);
            }
            let unit = extent.offset / UNIT_BYTES;
            let entry = self.entry(unit).load(Ordering::Acquire);
            let seal = seal_word(unit, entry, crc(extent));
            self.medium.store(self.seal_of(unit), seal);
            self.flush(self.geometry.entry_offset(unit) + 8, 8);
        }
        self.fence();
        self.sync_file()?;
        self.store_state(State::Turning);
        self.store_boot_id([0; 16]);
        self.store_state(State::Clean);
        self.flush_header();
        self.fence();
        self.write_back()?;
        self.sync_file()
    }

    /// Ends the use of the pool, sealed or not: from here on no extent is allocated or freed, whoever holds it still. What waits
    /// for the last reader runs on any thread and at any time, and may hold the pool a moment longer than its store does; by
    /// then the store may have been opened again, with the same extents in another use.
    pub fn end(&self) {
        self.space().ended = true;
        // Nobody to tell about a failure: a file that was not written back is what a kill would leave.
        let _ = self.write_back();
    }

    /// Compares an extent of a pool closed clean with its seal.
    pub(super) fn check_seal(&self, extent: &Extent) -> Result<()> {
        self.compare_seal(extent, self.sealed_crc(extent))
    }

    /// The checksum that a pool closed clean has of an extent.
    fn sealed_crc(&self, extent: &Extent) -> u32 {
        if extent.kind.checks_itself() { 0 } else { self.content_crc(extent) }
    }

    /// Compares the checksum of an extent's bytes with its seal.
    pub(super) fn compare_seal(&self, extent: &Extent, content_crc: u32) -> Result<()> {
        let unit = extent.offset / UNIT_BYTES;
        let entry = self.entry(unit).load(Ordering::Acquire);
        let seal = self.seal_of(unit).load(Ordering::Acquire);
        if seal_word(unit, entry, seal as u32) != seal {
            let what = format!("the map's entry of unit {unit} does not match its own checksum");
            return Err(self.corruption(self.geometry.entry_offset(unit), what));
        }
        if content_crc != seal as u32 {
            let what =
                format!("an extent of {} bytes ({:?}) does not match its checksum", extent.length_bytes, extent.kind);
            return Err(self.corruption(extent.offset, what));
        }
        Ok(())
    }

    /// The checksum of an extent's bytes. What it can't cover counts as zero: in the header the words that turn when the
    /// pool opens and closes, in a map its own seal.
    pub(super) fn content_crc(&self, extent: &Extent) -> u32 {
        let slice = |from: u64, to: u64| {
            #[cfg(test)]
            tests::SUMMED_BYTES.set(tests::SUMMED_BYTES.get() + to - from);
            // SAFETY: an extent is within the mapped pool, and while one opens or seals nobody writes it.
            unsafe { std::slice::from_raw_parts(self.address(from), (to - from) as usize) }
        };
        let with_zeros = |crc: u32, from: u64, zeros_from: u64, zeros_bytes: usize| {
            slmdb_checksum::crc32c_append(
                slmdb_checksum::crc32c_append(crc, slice(from, zeros_from)),
                &[0; 16][..zeros_bytes],
            )
        };
        let (crc, rest) = match extent.kind {
            ExtentKind::Header => {
                let crc = with_zeros(0, 0, STATE_OFFSET, 8);
                (with_zeros(crc, STATE_OFFSET + 8, BOOT_ID_OFFSET, 16), BOOT_ID_OFFSET + 16)
            }
            ExtentKind::Map => {
                let seal = self.geometry.entry_offset(extent.offset / UNIT_BYTES) + 8;
                (with_zeros(0, extent.offset, seal, 8), seal + 8)
            }
            _ => (0, extent.offset),
        };
        slmdb_checksum::crc32c_append(crc, slice(rest, extent.end()))
    }

    /// Writes back an extent, whoever stored what is in it, where a power cut would take it back.
    pub(super) fn flush_whole(&self, extent: &Extent) {
        if self.medium.survives_power_cut() {
            self.medium.flush(self.address(extent.offset), extent.length_bytes as usize);
        }
    }

    fn seal_of(&self, unit: u64) -> &AtomicU64 {
        // SAFETY: an entry is 16 aligned, mapped bytes: `entry` is its first word, this is its second.
        unsafe { &*self.address(self.geometry.entry_offset(unit) + 8).cast::<AtomicU64>() }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64 as Counter;

    use slmdb_testkit::MemoryEnv;

    use super::*;
    use crate::medium::{Dram, FlushCounters};
    use crate::pool::PoolOptions;

    thread_local! {
        /// What this thread has summed, in bytes.
        pub(super) static SUMMED_BYTES: Cell<u64> = const { Cell::new(0) };
    }

    /// Persistent memory that needs no direct mapping, and adds up what it writes back, in bytes.
    #[derive(Clone, Default)]
    struct Counting(Arc<Counter>);

    impl Medium for Counting {
        fn is_persistent(&self) -> bool {
            true
        }

        fn survives_power_cut(&self) -> bool {
            true
        }

        fn needs_direct_mapping(&self) -> bool {
            false
        }

        fn flush(&self, _start: *const u8, length_bytes: usize) {
            self.0.fetch_add(length_bytes as u64, Ordering::Relaxed);
        }

        fn fence(&self) {}

        fn counters(&self) -> FlushCounters {
            FlushCounters::default()
        }
    }

    /// What closing, opening, closing, opening after a kill and recovery sum and write back, in bytes, with so many units
    /// in extents of this kind.
    fn bytes_touched(kind: ExtentKind, units: u64) -> Vec<(u64, u64)> {
        let (env, path) = (MemoryEnv::new(), Path::new("/pool"));
        let options =
            PoolOptions { initial_bytes: 0, growth_bytes: 600 * UNIT_BYTES, maximum_bytes: 64 << 20, uuid: [1; 16] };
        let medium = Counting::default();
        let mut steps = Vec::new();
        let mut step = |work: &mut dyn FnMut()| {
            SUMMED_BYTES.set(0);
            medium.0.store(0, Ordering::Relaxed);
            work();
            steps.push((SUMMED_BYTES.get(), medium.0.load(Ordering::Relaxed)));
        };
        let open = || Pool::open(&env, path, medium.clone(), &options, false).expect("it is whole");
        let mut pool = Pool::create(&env, path, medium.clone(), &options).expect("there is space");
        for owner in 0..units / 4 {
            pool.allocate_extent(kind, 4 * UNIT_BYTES, owner as u32).expect("there is space");
        }
        step(&mut || pool.seal().expect("it is whole"));
        step(&mut || pool = open());
        assert!(pool.was_clean());
        // A kill: the file has what was stored, and nobody has sealed it.
        drop(pool);
        let mut pool = None;
        step(&mut || pool = Some(open()));
        let pool = pool.expect("just opened");
        assert!(!pool.was_clean());
        step(&mut || assert_eq!(pool.verify().len(), 0));
        steps
    }

    /// Closing, opening and recovery don't touch extents that check themselves, however many there are.
    #[test]
    fn what_checks_itself_is_neither_summed_nor_written_back() {
        for kind in [ExtentKind::List, ExtentKind::Segment, ExtentKind::HashTable] {
            let (few, many) = (bytes_touched(kind, 8), bytes_touched(kind, 400));
            for (step, (few, many)) in few.iter().zip(&many).enumerate() {
                // The words of the maps are more, and nothing else.
                let more = (400 - 8) / 4 * 8;
                assert_eq!(few.0, many.0, "step {step} sums");
                assert!(many.1 - few.1 <= more, "step {step} writes back {few:?} and {many:?}");
            }
        }
        // So the check would notice.
        let (few, many) = (bytes_touched(ExtentKind::KeySegment, 8), bytes_touched(ExtentKind::KeySegment, 400));
        let more = (400 - 8) * UNIT_BYTES;
        assert_eq!(many[0].0 - few[0].0, more, "a close sums");
        assert!(many[0].1 - few[0].1 >= more, "and writes back");
        assert_eq!(many[1].0 - few[1].0, more, "an opening sums");
        assert_eq!(many[2].1 - few[2].1, more, "an opening after a kill writes back");
    }

    /// The rule of the format: no seal of such an extent but that of no bytes is well formed.
    #[test]
    fn another_seal_of_what_checks_itself_is_damage() {
        let (env, path) = (MemoryEnv::new(), Path::new("/pool"));
        let options = PoolOptions { initial_bytes: 0, growth_bytes: 0, maximum_bytes: 64 << 20, uuid: [1; 16] };
        for wrong in [false, true] {
            let pool = Pool::create(&env, path, Dram, &options).expect("there is space");
            let list = pool.allocate_extent(ExtentKind::List, 1, 1).expect("there is space");
            pool.seal_with(|extent| if wrong && *extent == list { 1 } else { pool.sealed_crc(extent) })
                .expect("it is whole");
            assert_eq!(slmdb_checksum::crc32c(&[]), pool.sealed_crc(&list));
            drop(pool);
            let opened = Pool::open(&env, path, Dram, &options, false);
            assert_eq!(opened.is_err(), wrong);
        }
    }
}
