//! How a pool comes to be, and how it opens.
//!
//! **Creating** writes everything but the magic number, makes it durable, and writes the magic last: a file whose first
//! word is 0 is a creation that was never finished.
//!
//! **Opening** checks the header, reads the maps and, in a pool that was closed clean, verifies the checksum of every
//! extent that doesn't check itself. Then it marks the pool open: state word *turning*, boot id, state word *open*, all in one cache line and so
//! durable in that order; a pool found turning is as clean as one found clean. What a crash left open is opened too, but
//! only under the same boot of the machine: a file whose last pages were not yet written when the power went is a
//! mixture of moments. (Not so on a medium that survives power cuts: there the stores themselves are what is left.)
//!
//! **Closing** is the reverse, and `seal` does it.
//!
//! A pool may be a device instead of a file; `device` has what is different then.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use slmdb_env::{Env, Error, OpenMode, Result};
use slmdb_sync::mapped;
use slmdb_sync::scheduled::Mutex;

use super::device::{self, no_direct_file};
use super::extents::Walk;
use super::header::{HEADER_FRONT_BYTES, Header, words};
use super::open_pool::{Backing, Pool, PoolOptions};
use super::place::{front_of_file, refuse_foreign_file};
use super::space::{Space, UnitTable};
use crate::layout::{
    BOOT_ID_OFFSET, Geometry, LENGTH_OFFSET, MAGIC, MAGIC_OFFSET, POOL_UNITS_MAX, ROOT_OFFSET, STATE_OFFSET, State,
    UNIT_BYTES, VERSION_OFFSET, checked_word, state_word,
};
use crate::mapping::{Mapping, Sharing, sharing};
use crate::medium::Medium;

/// A page that nobody has written.
static ZEROS: [u8; 4096] = [0; 4096];

/// What is written back at a time to a file that can't be mapped.
const COPY_BYTES: u64 = 1 << 20;

impl<M: Medium> Pool<M> {
    /// A pool in plain memory, lost with the process. Its path is `(memory)`.
    pub fn anonymous(medium: M, options: &PoolOptions) -> Result<Pool<M>> {
        Pool::format(medium, Backing::Memory, PathBuf::from("(memory)"), options, [0; 16])
    }

    /// Makes a pool in a new file. A file that is there is replaced if it is an unfinished creation or a pool with the
    /// same uuid; any other is left alone, with [`Error::Invalid`]. [`Error::Full`] if the file system can't hold it,
    /// [`Error::Unsupported`] if the medium survives power cuts and the file can't be mapped so that it does.
    ///
    /// On a device-dax the same holds for what the device begins with, and the pool has its final length at once: that of
    /// the device, or what the options allow.
    ///
    /// The name becomes durable only when the caller syncs the directory.
    pub fn create(env: &dyn Env, path: &Path, medium: M, options: &PoolOptions) -> Result<Pool<M>> {
        if let Some(device) = env.dax_device(path)? {
            device::check_persistence(&device, medium.survives_power_cut(), path)?;
            let file = env.open_file(path, OpenMode::ReadWrite)?;
            device::check_replaceable(&*file, &device, Some(options.uuid))?;
            let length = device::new_length_bytes(&device, options.maximum_bytes, path)?;
            let options = PoolOptions { initial_bytes: length, maximum_bytes: length, ..options.clone() };
            device::clear(&*file, &device, &medium)?;
            return Pool::format(medium, Backing::Device(file, device), path.to_path_buf(), &options, env.boot_id());
        }
        refuse_foreign_file(env, path, options.uuid)?;
        let file = env.open_file(path, OpenMode::CreateOrTruncate)?;
        let backing = match file.descriptor() {
            Some(_) => Backing::File(file),
            None if medium.needs_direct_mapping() => return Err(no_direct_file(path)),
            None => Backing::Copy(file),
        };
        Pool::format(medium, backing, path.to_path_buf(), options, env.boot_id())
    }

    /// Opens a pool. [`Error::Corruption`] for damage, [`Error::Unsupported`] for another format version,
    /// [`Error::Invalid`] for another store's pool. On a medium that survives power cuts a file that can't be mapped
    /// accordingly is [`Error::Unsupported`]; read-only it may lie anywhere.
    ///
    /// With `read_only` the file is opened for reading and mapped privately: it may be written like any other pool, and
    /// nothing of that reaches the file. (What the pool uses of a device is copied.)
    pub fn open(env: &dyn Env, path: &Path, medium: M, options: &PoolOptions, read_only: bool) -> Result<Pool<M>> {
        let device = env.dax_device(path)?;
        let file = env.open_file(path, if read_only { OpenMode::Read } else { OpenMode::ReadWrite })?;
        let (front, file_bytes) = match &device {
            Some(device) => (device::first_unit(&*file, device)?, device.size_bytes),
            None => (front_of_file(&*file)?, file.length_bytes()?),
        };
        let header = Header::parse(&front[..front.len().min(HEADER_FRONT_BYTES)], file_bytes, path)?;
        if header.uuid != options.uuid {
            let what = format!("{} is the pool of another store", path.display());
            return Err(Error::invalid(what));
        }
        if is_mixture(&header, env.boot_id(), medium.survives_power_cut()) {
            let what = "the machine restarted while this pool was open, so it is a mixture of old and new pages; \
                        `slmdb repair` makes it anew from the table files, and tells what is lost";
            return Err(Error::corruption(path, BOOT_ID_OFFSET, what));
        }
        let backing = match (device, read_only) {
            (_, true) => Backing::ReadOnly,
            (Some(device), false) => {
                device::check_persistence(&device, medium.survives_power_cut(), path)?;
                Backing::Device(file.clone(), device)
            }
            (None, false) if file.descriptor().is_some() => Backing::File(file.clone()),
            (None, false) if medium.needs_direct_mapping() => return Err(no_direct_file(path)),
            (None, false) => Backing::Copy(file.clone()),
        };
        let length = header.length_units * UNIT_BYTES;
        let mapping = backing.reserve(whole_units(options.maximum_bytes), length, path)?;
        match (&backing, file.descriptor(), device) {
            (Backing::Device(..), ..) => {}
            (_, _, Some(device)) => {
                mapping.memory(0, length, path)?;
                device::copy_used(&*file, &device, header.geometry, header.length_units, &mapping)?;
            }
            (Backing::ReadOnly, Some(descriptor), None) => {
                mapping.file(descriptor, 0, length, Sharing::Private, path)?;
            }
            (_, Some(descriptor), None) => mapping.file(descriptor, 0, length, sharing(&medium), path)?,
            (_, None, None) => {
                mapping.memory(0, length, path)?;
                // SAFETY: mapped just now, and still known to nobody else.
                let memory = unsafe { std::slice::from_raw_parts_mut(mapping.base(), length as usize) };
                file.read_exact_at(memory, 0)?;
            }
        }
        let pool = Pool::assemble(medium, mapping, backing, path.to_path_buf(), options, &header)?;
        pool.start(&header, env.boot_id())
    }

    /// Opens a copy of a pool that is given as bytes, such as a crash image of a medium that records. Like
    /// [`Pool::open`], but whatever the uuid and the boot, and in plain memory. It may grow to four times its length, or to
    /// 64 MiB.
    pub fn from_image(medium: M, bytes: Vec<u8>) -> Result<Pool<M>> {
        let path = PathBuf::from("(memory)");
        let header = Header::parse(&bytes[..bytes.len().min(HEADER_FRONT_BYTES)], bytes.len() as u64, &path)?;
        let length = header.length_units * UNIT_BYTES;
        let options = PoolOptions {
            initial_bytes: length,
            growth_bytes: length / 4,
            maximum_bytes: (length * 4).max(64 << 20),
            uuid: header.uuid,
        };
        let mapping = Mapping::reserve(options.maximum_bytes, &path)?;
        mapping.memory(0, length, &path)?;
        // Most of a small pool is zero, and so is the memory: pages that stay untouched cost nothing.
        for (index, page) in bytes[..length as usize].chunks(ZEROS.len()).enumerate() {
            if page != &ZEROS[..page.len()] {
                // SAFETY: mapped just now with this length, and still known to nobody else.
                unsafe { mapping.base().add(index * ZEROS.len()).copy_from_nonoverlapping(page.as_ptr(), page.len()) };
            }
        }
        let pool = Pool::assemble(medium, mapping, Backing::Memory, path, &options, &header)?;
        pool.start(&header, [0; 16])
    }

    /// A new pool in space whose first unit is zero.
    fn format(medium: M, backing: Backing, path: PathBuf, options: &PoolOptions, boot_id: [u8; 16]) -> Result<Pool<M>> {
        let geometry = Geometry::for_maximum(options.maximum_bytes);
        let length_units = options.initial_bytes.div_ceil(UNIT_BYTES).max(geometry.smallest());
        if length_units > POOL_UNITS_MAX {
            return Err(Error::invalid(format!("a pool of {} bytes is too large", options.initial_bytes)));
        }
        let mapping = backing.reserve(whole_units(options.maximum_bytes), length_units * UNIT_BYTES, &path)?;
        let header = Header { uuid: options.uuid, geometry, length_units, state: State::Open, open_count: 0, boot_id };
        let mut pool = Pool::assemble(medium, mapping, backing, path, options, &header)?;
        pool.extend(0, length_units)?;
        pool.length_bytes = AtomicU64::new(length_units * UNIT_BYTES);
        if !matches!(pool.backing, Backing::Device(..)) {
            pool.medium.begin_new();
        }
        // SAFETY: mapped just now, and still known to nobody else.
        unsafe { pool.medium.attach(pool.mapping.base(), pool.length_bytes() as usize) };
        for region in 0..geometry.regions(length_units) {
            pool.format_map(region);
        }
        pool.load_map()?;
        pool.was_clean = true;
        pool.store_boot_id(boot_id);
        pool.store_header(LENGTH_OFFSET, checked_word(LENGTH_OFFSET, length_units));
        pool.store_state(State::Open);
        let constants = header.constants();
        // SAFETY: within the header, which is mapped and which nobody else knows of yet.
        unsafe { pool.medium.copy(pool.address(VERSION_OFFSET as u64), &constants[VERSION_OFFSET..]) };
        pool.flush_header();
        pool.fence();
        pool.sync_file()?;
        pool.store_header(MAGIC_OFFSET, MAGIC);
        pool.flush_header();
        pool.fence();
        pool.write_back()?;
        pool.sync_file()?;
        Ok(pool)
    }

    /// The pool object, which knows no extent yet, and of no byte that it is mapped.
    pub(super) fn assemble(
        medium: M,
        mapping: Mapping,
        backing: Backing,
        path: PathBuf,
        options: &PoolOptions,
        header: &Header,
    ) -> Result<Pool<M>> {
        let maximum_bytes = mapping.length_bytes() as u64;
        let units = UnitTable::new(maximum_bytes / UNIT_BYTES, &path)?;
        let open_count = header.open_count.checked_add(1).ok_or_else(|| Error::Unsupported {
            what: "a pool that was opened more than four thousand million times".into(),
            file: Some(path.clone()),
        })?;
        Ok(Pool {
            medium,
            mapping,
            length_bytes: AtomicU64::new(0),
            used_bytes: AtomicU64::new(0),
            geometry: header.geometry,
            units,
            space: Mutex::new(Space::default()),
            backing,
            path,
            uuid: header.uuid,
            growth_bytes: options.growth_bytes,
            growth_guard: OnceLock::new(),
            maximum_bytes,
            ends_early: maximum_bytes < whole_units(options.maximum_bytes),
            was_clean: header.state != State::Open,
            open_count,
        })
    }

    /// The second half of opening: reads and checks what is mapped, then marks the pool open.
    fn start(mut self, header: &Header, boot_id: [u8; 16]) -> Result<Pool<M>> {
        self.length_bytes = AtomicU64::new(header.length_units * UNIT_BYTES);
        // (What is stored to a private mapping is no store to the medium.)
        if !matches!(self.backing, Backing::ReadOnly) {
            // SAFETY: mapped, and known to nobody else yet.
            unsafe { self.medium.attach(self.mapping.base(), self.length_bytes() as usize) };
        }
        if let Err(error) = self.check(header) {
            self.medium.detach();
            // What is refused is not written back either.
            self.backing = Backing::ReadOnly;
            return Err(error);
        }
        self.units.count_from_here();
        if self.was_clean {
            self.store_state(State::Turning);
        } else {
            self.flush_what_was_left();
        }
        self.store_boot_id(boot_id);
        self.store_state(State::Open);
        self.flush_header();
        self.fence();
        self.sync_file()?;
        Ok(self)
    }

    /// Begins to write back what a killed process stored and did not flush: it is in the processor's caches, is read from here on as
    /// if it were durable, and a power cut would still take it back. (Where power cuts are not survived anyway it makes no difference.)
    /// The next fence orders it, before anybody reads it. Extents that check themselves were durable before anything named them.
    fn flush_what_was_left(&self) {
        let Walk { extents, .. } = self.walk();
        extents.iter().filter(|extent| !extent.kind.checks_itself()).for_each(|extent| self.flush_whole(extent));
    }

    /// Reads the maps and, in a pool closed clean, verifies every seal.
    fn check(&mut self, header: &Header) -> Result<()> {
        let extents = self.load_map()?;
        if header.state == State::Clean && header.boot_id != [0; 16] {
            return Err(self.corruption(BOOT_ID_OFFSET, "a boot id in a pool that was closed clean"));
        }
        if self.was_clean {
            for extent in &extents {
                self.check_seal(extent)?;
            }
        }
        Ok(())
    }

    fn header(&self, offset: u64) -> &mapped::AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset < ROOT_OFFSET);
        // SAFETY: an aligned word of the header, which is always mapped.
        unsafe { &*self.address(offset).cast::<mapped::AtomicU64>() }
    }

    pub(super) fn store_header(&self, offset: u64, value: u64) {
        self.medium.store(self.header(offset), value);
    }

    pub(super) fn flush_header(&self) {
        self.medium.flush(self.mapping.base(), HEADER_FRONT_BYTES);
    }

    pub(super) fn store_state(&self, state: State) {
        self.store_header(STATE_OFFSET, state_word(state, self.open_count));
    }

    pub(super) fn store_boot_id(&self, boot_id: [u8; 16]) {
        for (index, word) in words(&boot_id).enumerate() {
            self.store_header(BOOT_ID_OFFSET + 8 * index as u64, word);
        }
    }

    pub(super) fn sync_file(&self) -> Result<()> {
        match &self.backing {
            Backing::File(file) | Backing::Copy(file) => file.sync_data(),
            Backing::Memory | Backing::ReadOnly | Backing::Device(..) => Ok(()),
        }
    }

    /// Brings a file that can't be mapped up to date.
    pub(super) fn write_back(&self) -> Result<()> {
        let Backing::Copy(file) = &self.backing else { return Ok(()) };
        let length = self.length_bytes();
        for from in (0..length).step_by(COPY_BYTES as usize) {
            let bytes = COPY_BYTES.min(length - from) as usize;
            // SAFETY: within the mapped pool; nobody else uses a pool that is being made, sealed or dropped.
            file.write_at(unsafe { std::slice::from_raw_parts(self.address(from), bytes) }, from)?;
        }
        Ok(())
    }
}

impl Backing {
    /// Reserves the addresses of a pool that has `length_bytes` and may get as long as this, or as it could. Nothing is mapped there yet,
    /// unless it is a device: then all of it is that there will be.
    pub(super) fn reserve(&self, maximum_bytes: u64, length_bytes: u64, path: &Path) -> Result<Mapping> {
        let allowed_bytes = maximum_bytes.saturating_sub(length_bytes);
        match self {
            Backing::Device(file, device) => {
                let maximum_bytes = maximum_bytes.max(length_bytes);
                device::map(&**file, device, device::limit_bytes(device, maximum_bytes), Sharing::Shared)
            }
            Backing::Memory | Backing::Copy(_) | Backing::ReadOnly => {
                Mapping::with_room(length_bytes, allowed_bytes.min(memory_bytes()), path)
            }
            Backing::File(file) => {
                let could_bytes = file.file_system_bytes().unwrap_or(u64::MAX).saturating_sub(length_bytes);
                Mapping::with_room(length_bytes, allowed_bytes.min(could_bytes), path)
            }
        }
        .map_err(|error| match error {
            Error::Io { operation, path, source } if source.kind() == std::io::ErrorKind::OutOfMemory => {
                let why = format!(
                    "{source}: the process has too few addresses left for a pool of {length_bytes} bytes \
                     (pool_initial_bytes, or what it has grown to), and for the stores that are open; close some of them, \
                     or raise `ulimit -v`, or vm.max_map_count"
                );
                Error::Io { operation, path, source: std::io::Error::new(source.kind(), why).into() }
            }
            error => error,
        })
    }
}

/// The memory of the machine and its swap, in bytes.
fn memory_bytes() -> u64 {
    let found = rustix::system::sysinfo();
    found.totalram.saturating_add(found.totalswap).saturating_mul(u64::from(found.mem_unit))
}

/// Whether a pool may hold pages of different moments: it was open when the machine went down, and its medium does not
/// survive that.
fn is_mixture(header: &Header, boot_id: [u8; 16], survives_power_cut: bool) -> bool {
    header.state == State::Open && header.boot_id != boot_id && !survives_power_cut
}

/// A limit in bytes, rounded down to whole units, and to what can be mapped at all.
pub(super) fn whole_units(limit_bytes: u64) -> u64 {
    (limit_bytes / UNIT_BYTES).min(POOL_UNITS_MAX) * UNIT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only what was open in another boot and may have lost pages is a mixture.
    #[test]
    fn only_an_open_pool_of_another_boot_may_be_a_mixture() {
        let header = |state, boot| Header {
            uuid: [1; 16],
            geometry: Geometry::for_maximum(0),
            length_units: 2,
            state,
            open_count: 1,
            boot_id: [boot; 16],
        };
        assert!(is_mixture(&header(State::Open, 1), [2; 16], false));
        assert!(!is_mixture(&header(State::Open, 1), [2; 16], true), "persistent memory has lost nothing");
        assert!(!is_mixture(&header(State::Open, 1), [1; 16], false), "the process was killed, not the machine");
        assert!(!is_mixture(&header(State::Clean, 0), [2; 16], false));
        assert!(!is_mixture(&header(State::Turning, 1), [2; 16], false), "as clean as one found clean");
    }
}
