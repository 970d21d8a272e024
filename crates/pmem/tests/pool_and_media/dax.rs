//! What real persistent memory gives: mappings with `MAP_SYNC`, and device-dax.
//!
//! There is hardly a machine that has it, so these tests run in one that is emulated: `scripts/dax-machine test` sets
//! `SLMDB_TEST_DAX` (on a DAX file system), `SLMDB_TEST_DAX_DEVICE` (a device-dax) and `SLMDB_TEST_WRITE_BACK` (the
//! instruction that the processor should be found to have). Without them there is nothing to test on, and they say so.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use slmdb_env::{DaxDevice, Env, ErrorKind, OsEnv};
use slmdb_pmem::pool::{check_direct, check_new_device, remove_pool};
use slmdb_pmem::{Emulated, ExtentKind, Medium, Persistent, Pool, PoolOptions, UNIT_BYTES};

use crate::common::{UUID, fill, is_filled};

/// A variable that names what to test on. `None`, and a word about it, when it is not set.
fn given(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    if value.is_none() {
        println!("SKIPPED: {name} is not set; `scripts/dax-machine test` runs this on emulated persistent memory");
    }
    value.map(PathBuf::from)
}

/// The start of a file, mapped as persistent memory.
struct Window {
    address: *mut u8,
    length_bytes: usize,
}

impl Window {
    fn new(file: &File, length_bytes: usize) -> Result<Window, Errno> {
        let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
        // SAFETY: the kernel chooses the place, so nothing that exists is replaced.
        let address =
            unsafe { mmap(std::ptr::null_mut(), length_bytes, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0) }?;
        Ok(Window { address: address.cast(), length_bytes })
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length_bytes);
        let medium = Emulated::new();
        // SAFETY: within the mapping, which this test alone knows.
        unsafe { medium.copy(self.address.wrapping_add(offset), bytes) };
        medium.flush(self.address.wrapping_add(offset), bytes.len());
        medium.fence();
    }

    fn read(&self, offset: usize, length_bytes: usize) -> Vec<u8> {
        assert!(offset + length_bytes <= self.length_bytes);
        // SAFETY: within the mapping, and nobody writes meanwhile.
        unsafe { std::slice::from_raw_parts(self.address.wrapping_add(offset), length_bytes) }.to_vec()
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping is this window's own, and nothing borrows from it.
        unsafe { munmap(self.address.cast(), self.length_bytes) }.unwrap();
    }
}

#[test]
fn a_file_on_dax_maps_with_map_sync() {
    let Some(directory) = given("SLMDB_TEST_DAX") else { return };
    let mut file = tempfile::tempfile_in(directory).unwrap();
    file.set_len(1 << 20).unwrap();
    let window = Window::new(&file, 1 << 20).unwrap();
    window.write(4096 + 17, b"written by stores alone");
    let mut content = Vec::new();
    file.read_to_end(&mut content).unwrap();
    assert_eq!(&content[4096 + 17..][..23], b"written by stores alone");
}

#[test]
fn a_file_in_the_page_cache_does_not() {
    let Ok(file) = tempfile::tempfile_in("/dev/shm") else { return println!("SKIPPED: there is no /dev/shm") };
    file.set_len(1 << 20).unwrap();
    assert_eq!(Window::new(&file, 1 << 20).err(), Some(Errno::OPNOTSUPP));
}

/// The device, for one test at a time.
fn device() -> Option<(PathBuf, MutexGuard<'static, ()>)> {
    static IN_USE: Mutex<()> = Mutex::new(());
    let path = given("SLMDB_TEST_DAX_DEVICE")?;
    Some((path, IN_USE.lock().unwrap_or_else(PoisonError::into_inner)))
}

#[test]
fn a_device_dax_keeps_what_is_stored() {
    let Some((device, _in_use)) = device() else { return };
    let file = File::options().read(true).write(true).open(&device).unwrap();
    let number = file.metadata().unwrap().rdev();
    let told = |name: &str| -> u64 {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let text = std::fs::read_to_string(format!("/sys/dev/char/{major}:{minor}/{name}")).unwrap();
        text.trim().parse().unwrap()
    };
    let (size_bytes, alignment_bytes) = (told("size"), told("align"));
    assert_eq!((size_bytes > 0, size_bytes % alignment_bytes), (true, 0));
    let known = OsEnv::new().dax_device(&device).unwrap();
    assert_eq!(known, Some(DaxDevice { size_bytes, alignment_bytes, is_persistent: true }));
    let (length, last) = (size_bytes as usize, size_bytes as usize - 64);
    let window = Window::new(&file, length).unwrap();
    let (before_first, before_last) = (window.read(0, 4), window.read(last, 4));
    let word = std::process::id().to_le_bytes();
    window.write(0, &word);
    window.write(last, &word);
    drop(window);
    let window = Window::new(&file, length).unwrap();
    assert_eq!((window.read(0, 4), window.read(last, 4)), (word.to_vec(), word.to_vec()));
    window.write(0, &before_first);
    window.write(last, &before_last);
}

#[test]
fn a_pool_works_on_a_device_dax() {
    let Some((path, _in_use)) = device() else { return };
    let (env, dax) = (OsEnv::new(), || Persistent::dax(false).unwrap());
    let DaxDevice { size_bytes, .. } = env.dax_device(&path).unwrap().unwrap();
    let small = PoolOptions { initial_bytes: 0, growth_bytes: 0, maximum_bytes: 4 << 20, uuid: UUID };
    let whole = PoolOptions { maximum_bytes: u64::MAX, ..small.clone() };
    check_direct(&env, &path).unwrap();
    assert!(check_new_device(&env, &path).unwrap());
    let pool = Pool::create(&env, &path, dax(), &small).unwrap();
    assert_eq!(pool.length_bytes(), 4 << 20);
    let mut extents = Vec::new();
    let error = loop {
        match pool.allocate_extent(ExtentKind::KeySegment, 4 * UNIT_BYTES, extents.len() as u32) {
            Ok(extent) => extents.push(extent),
            Err(error) => break error,
        }
        fill(&pool, extents.last().unwrap());
    };
    assert_eq!((error.kind(), extents.len()), (ErrorKind::Full, 15));
    drop(pool);
    assert_eq!(check_new_device(&env, &path).unwrap_err().kind(), ErrorKind::Invalid);

    let file = File::options().read(true).write(true).open(&path).unwrap();
    for was_clean in [false, true] {
        // Read-only: nothing that is stored then comes to the device.
        let window = Window::new(&file, 4 << 20).unwrap();
        let before = window.read(0, 4 << 20);
        let pool = Pool::open(&env, &path, dax(), &small, true).unwrap();
        assert!(pool.was_clean() == was_clean && extents.iter().all(|extent| is_filled(&pool, extent)));
        pool.free_extent(extents[0].offset).unwrap();
        fill(&pool, &pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 77).unwrap());
        drop(pool);
        assert!(window.read(0, 4 << 20) == before);
        drop(window);
        let pool = Pool::open(&env, &path, dax(), &small, false).unwrap();
        assert!(pool.was_clean() == was_clean && extents.iter().all(|extent| is_filled(&pool, extent)));
        pool.seal().unwrap();
    }
    let pool = Pool::open(&env, &path, dax(), &whole, false).unwrap();
    assert_eq!(pool.maximum_bytes(), size_bytes);
    let rest = pool.allocate_extent(ExtentKind::KeySegment, size_bytes - (4 << 20), 9).unwrap();
    assert!(rest.end() > size_bytes - (1 << 20) && rest.end() <= size_bytes);
    assert_eq!(pool.allocate_extent(ExtentKind::Arena, 1 << 20, 1).unwrap_err().kind(), ErrorKind::Full);
    drop(pool);
    assert_eq!(remove_pool(&env, &path, [9; 16]).unwrap_err().kind(), ErrorKind::Invalid);
    remove_pool(&env, &path, UUID).unwrap();
    assert!(Window::new(&file, 4 << 20).unwrap().read(0, UNIT_BYTES as usize).iter().all(|&byte| byte == 0));
}

#[test]
fn the_write_back_is_the_best_that_the_processor_has() {
    let Some(expected) = given("SLMDB_TEST_WRITE_BACK") else { return };
    assert_eq!(Emulated::new().instruction(), expected.to_str().unwrap());
}
