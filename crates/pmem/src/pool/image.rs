//! Images: what a pool of plain memory holds, in a file, to be memory again at another opening.
//!
//! An image is the pool as [`Pool::seal`] leaves it, at the offsets that it has in memory, and a footer behind it. What is
//! free is not written. The maker *binds* it to what it belongs to with bytes that mean nothing here: an image with
//! another binding is not opened.
//!
//! ```text
//! 0         the pool's extents, at their offsets; between them nothing, or zeros
//! length    footer
//!            0  magic           u64   "slmimage"
//!            8  format version  u32   1
//!           12  crc32c          u32   of bytes 0..12 and 16..64
//!           16  length          u64   of the pool, in bytes: where the footer is
//!           24  binding        32 B
//!           56  zero            8 B
//! ```
//!
//! The footer is written last, and nothing is synced: an image whose writing was cut short, or of which a power cut has
//! taken a part, has no footer or fails its seals. Every extent is compared with its seal as it is read, so an image is
//! believed to the same degree as a pool that was closed clean. For that the seals of an image cover the content of every
//! extent, also of those that check themselves: nobody made it durable here.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use slmdb_env::{Env, Error, File, OpenMode, Result};
use slmdb_sync::scheduled::{processors, thread, try_spawn};

use super::extents::Walk;
use super::header::{HEADER_FRONT_BYTES, Header};
use super::lifecycle::whole_units;
use super::open_pool::{Backing, Pool, PoolOptions};
use crate::extent::Extent;
use crate::layout::{State, UNIT_BYTES};
use crate::medium::Medium;

const MAGIC: u64 = u64::from_le_bytes(*b"slmimage");
const FORMAT_VERSION: u32 = 1;
const FOOTER_BYTES: usize = 64;
const CRC_AT: usize = 12;
const LENGTH_AT: usize = 16;
const BINDING_AT: usize = 24;

/// So many bytes of an image are read or written at a time: what is read is checked while the processor's cache has it.
const COPY_BYTES: u64 = 256 << 10;
/// More threads don't read faster.
const THREADS_MAX: usize = 8;
/// Fewer bytes are not worth another thread.
const BYTES_A_THREAD_MIN: u64 = 16 << 20;

/// What an image belongs to, as its maker says.
pub type ImageBinding = [u8; 32];

const _: () = assert!(BINDING_AT + size_of::<ImageBinding>() + 8 == FOOTER_BYTES);

fn footer_crc(footer: &[u8; FOOTER_BYTES]) -> u32 {
    slmdb_checksum::crc32c_append(slmdb_checksum::crc32c(&footer[..CRC_AT]), &footer[LENGTH_AT..])
}

fn footer(length_bytes: u64, binding: &ImageBinding) -> [u8; FOOTER_BYTES] {
    let mut footer = [0; FOOTER_BYTES];
    footer[..8].copy_from_slice(&MAGIC.to_le_bytes());
    footer[8..CRC_AT].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    footer[LENGTH_AT..BINDING_AT].copy_from_slice(&length_bytes.to_le_bytes());
    footer[BINDING_AT..BINDING_AT + binding.len()].copy_from_slice(binding);
    let crc = footer_crc(&footer);
    footer[CRC_AT..LENGTH_AT].copy_from_slice(&crc.to_le_bytes());
    footer
}

impl<M: Medium> Pool<M> {
    /// Seals the pool, and writes its image to a new file. Not durable on return, and it need not be. Gives the file's
    /// length. For pools of plain memory; what holds for [`Pool::seal`] holds here, but that every extent is summed.
    pub fn write_image(&self, env: &dyn Env, path: &Path, binding: &ImageBinding) -> Result<u64> {
        self.seal_with(|extent| self.content_crc(extent))?;
        let file = env.open_file(path, OpenMode::CreateOrTruncate)?;
        let Walk { extents, faults } = self.walk();
        if let Some(fault) = faults.into_iter().next() {
            return Err(fault);
        }
        for extent in &extents {
            for (from, bytes) in pieces(extent) {
                // SAFETY: an extent is within the mapped pool, and nobody writes a sealed one.
                file.write_at(unsafe { std::slice::from_raw_parts(self.address(from), bytes) }, from)?;
            }
        }
        let length_bytes = self.length_bytes();
        file.write_at(&footer(length_bytes, binding), length_bytes)?;
        Ok(length_bytes + FOOTER_BYTES as u64)
    }

    /// A pool of plain memory with what an image holds. `None` if the file is no image with this binding. Whatever the
    /// bytes are, the pool is what was written, or the error is [`Error::Corruption`].
    pub fn open_image(
        env: &dyn Env,
        path: &Path,
        medium: M,
        options: &PoolOptions,
        binding: &ImageBinding,
    ) -> Result<Option<Pool<M>>> {
        let file = env.open_file(path, OpenMode::Read)?;
        let Some(length) = file.length_bytes()?.checked_sub(FOOTER_BYTES as u64) else { return Ok(None) };
        let mut found = [0; FOOTER_BYTES];
        file.read_exact_at(&mut found, length)?;
        if found != footer(length, binding) || length > whole_units(options.maximum_bytes) {
            return Ok(None);
        }
        let mut front = [0; HEADER_FRONT_BYTES];
        file.read_exact_at(&mut front[..HEADER_FRONT_BYTES.min(length as usize)], 0)?;
        let header = Header::parse(&front, length, path)?;
        let is_whole = header.length_units * UNIT_BYTES == length && header.state == State::Clean;
        if !is_whole || header.uuid != options.uuid || header.boot_id != [0; 16] {
            return Err(Error::corruption(path, 0, "the header of an image is not that of a sealed pool"));
        }
        let mapping = Backing::Memory.reserve(whole_units(options.maximum_bytes), length, path)?;
        mapping.memory(0, length, path)?;
        mapping.prefer_large_pages(0, length);
        let mut pool = Pool::assemble(medium, mapping, Backing::Memory, path.to_path_buf(), options, &header)?;
        pool.length_bytes = AtomicU64::new(length);
        let geometry = header.geometry;
        let own = std::iter::once((0, 1)).chain(
            (0..geometry.regions(header.length_units)).map(|region| (geometry.map_start(region), geometry.map())),
        );
        for (unit, units) in own {
            // SAFETY: header and maps are within the mapped pool, which nobody else knows of yet.
            let memory = unsafe {
                std::slice::from_raw_parts_mut(pool.address(unit * UNIT_BYTES), (units * UNIT_BYTES) as usize)
            };
            file.read_exact_at(memory, unit * UNIT_BYTES)?;
        }
        let (own, others): (Vec<Extent>, Vec<Extent>) =
            pool.load_map()?.into_iter().partition(|extent| extent.kind.is_internal());
        own.iter().try_for_each(|extent| pool.check_seal(extent))?;
        pool.read_all_sealed(&*file, &others)?;
        // SAFETY: mapped, and known to nobody else yet.
        unsafe { pool.medium.attach(pool.mapping.base(), length as usize) };
        pool.store_state(State::Open);
        pool.path = PathBuf::from("(memory)");
        Ok(Some(pool))
    }

    /// Reads extents from their places in a file, with as many threads as there are processors, and compares each with
    /// its seal.
    fn read_all_sealed(&self, file: &dyn File, extents: &[Extent]) -> Result<()> {
        let next = AtomicUsize::new(0);
        let read = || {
            while let Some(extent) = extents.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.read_sealed(file, extent)?;
            }
            Ok(())
        };
        let bytes: u64 = extents.iter().map(|extent| extent.length_bytes).sum();
        let threads = processors().min(THREADS_MAX).min((bytes / BYTES_A_THREAD_MIN) as usize);
        thread::scope(|scope| {
            // Without further threads this one reads all.
            let others: Vec<_> = (1..threads).map_while(|_| try_spawn(scope, read).ok()).collect();
            let own = read();
            let mut results =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            results.try_fold((), |(), result| result).and(own)
        })
    }

    fn read_sealed(&self, file: &dyn File, extent: &Extent) -> Result<()> {
        let mut crc = 0;
        for (from, bytes) in pieces(extent) {
            // SAFETY: within the mapped pool, which nobody else knows of yet; extents don't overlap, and each is read by one
            // thread alone.
            let memory = unsafe { std::slice::from_raw_parts_mut(self.address(from), bytes) };
            file.read_exact_at(memory, from)?;
            crc = slmdb_checksum::crc32c_append(crc, memory);
        }
        self.compare_seal(extent, crc)
    }
}

/// The pieces of an extent that are copied at a time: where each begins, and its length in bytes.
fn pieces(extent: &Extent) -> impl Iterator<Item = (u64, usize)> {
    let end = extent.end();
    (extent.offset..end).step_by(COPY_BYTES as usize).map(move |from| (from, COPY_BYTES.min(end - from) as usize))
}
