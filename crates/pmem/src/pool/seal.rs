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
    /// After an error the pool is one that was not closed clean.
    pub fn seal(&self) -> Result<()> {
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
            self.flush_whole(extent);
            let unit = extent.offset / UNIT_BYTES;
            let entry = self.entry(unit).load(Ordering::Acquire);
            let seal = seal_word(unit, entry, self.content_crc(extent));
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
        self.compare_seal(extent, self.content_crc(extent))
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
    fn content_crc(&self, extent: &Extent) -> u32 {
        let slice = |from: u64, to: u64| {
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
