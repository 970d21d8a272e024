//! What the operating system knows of a run: processor time, memory, the block device, space on disk.
//!
//! What can't be had (a file system without a block device, a kernel that hides a file) is `None`, never 0.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};

/// The kernel counts a block device's traffic in these, whatever its own are.
const SECTOR_BYTES: u64 = 512;

/// Processor time that all threads of this process have used so far.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Waits until this process has been idle for `quiet`: its threads have used hardly any processor time, have read from no device and
/// written to no file, and none was waiting for a disk when it was looked at. Gives up, and says false, when that takes longer than `at_most`.
pub fn wait_until_idle(quiet: Duration, at_most: Duration) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    const BUSY_PART: u32 = 20;
    let started = Instant::now();
    let mut idle_since = started;
    let mut before = (processor_time(), transfers());
    while idle_since.elapsed() < quiet {
        if started.elapsed() >= at_most {
            return false;
        }
        let slept = Instant::now();
        thread::sleep(STEP);
        let now = (processor_time(), transfers());
        let uses_processor = now.0 - before.0 > slept.elapsed() / BUSY_PART;
        if uses_processor || now.1 != before.1 || waits_for_disk() {
            idle_since = Instant::now();
        }
        before = now;
    }
    true
}

/// What this process has written to files, and moved from and to devices, so far. (Not what it has read: this is a read, too.)
fn transfers() -> [Option<String>; 3] {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    ["wchar", "read_bytes", "write_bytes"].map(|name| told(&io, name).map(str::to_string))
}

/// Whether a thread of this process sleeps and can't be woken: it is in a sync, say.
fn waits_for_disk() -> bool {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return false };
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    // The state is behind the name, which may have anything in it.
    stats.filter_map(|stat| Some(stat.rsplit_once(')')?.1.trim_start().starts_with('D'))).any(|waits| waits)
}

/// What of this process is in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resident {
    /// All of it, in bytes: mapped files count, too (arenas, pools, LMDB's map).
    pub all_bytes: Option<u64>,
    /// What belongs to no file.
    pub anonymous_bytes: Option<u64>,
}

impl Resident {
    /// Now.
    pub fn now() -> Resident {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Resident { all_bytes: status_bytes(&status, "VmRSS"), anonymous_bytes: status_bytes(&status, "RssAnon") }
    }
}

/// A line of /proc/self/status, `NAME:  N kB`.
fn status_bytes(status: &str, name: &str) -> Option<u64> {
    told(status, name)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What one of the files in /proc/self says of `name`: a line `NAME: WHAT`.
fn told<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    Some(text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim())
}

/// What this process has asked of files by calls that read and write, so far. Mapped files (arenas, pools, LMDB's map where it
/// is written through) are not in it; files that are not the store's are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileCalls {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
}

impl FileCalls {
    /// Of all threads, those that have ended included.
    pub fn so_far() -> Option<FileCalls> {
        parse_calls(&fs::read_to_string("/proc/self/io").ok()?)
    }

    /// What has come since `before`.
    pub fn since(&self, before: &FileCalls) -> FileCalls {
        FileCalls {
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}

/// /proc/self/io: `rchar` and `wchar` are what calls read and wrote, from and to wherever.
fn parse_calls(io: &str) -> Option<FileCalls> {
    let number = |name: &str| told(io, name)?.parse::<u64>().ok();
    Some(FileCalls { read_bytes: number("rchar")?, written_bytes: number("wchar")? })
}

/// The traffic of a whole block device, everybody's, since the machine was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceTraffic {
    /// Bytes that were read from it.
    pub read_bytes: u64,
    /// Bytes that were written to it.
    pub written_bytes: u64,
}

impl DeviceTraffic {
    /// Of the device that holds `path`, after everything that its file system still had to write has been written. (On tmpfs,
    /// overlayfs or btrfs there is no one such device.)
    pub fn after_sync(path: &Path) -> Option<DeviceTraffic> {
        let directory = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        rustix::fs::syncfs(&directory).ok()?;
        let device = fs::metadata(path).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        parse_traffic(&fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?)
    }

    /// What has come since `before`.
    pub fn since(&self, before: &DeviceTraffic) -> DeviceTraffic {
        DeviceTraffic {
            read_bytes: self.read_bytes.wrapping_sub(before.read_bytes),
            written_bytes: self.written_bytes.wrapping_sub(before.written_bytes),
        }
    }
}

/// The kernel's Documentation/block/stat.rst: the third number is sectors read, the seventh sectors written.
fn parse_traffic(stat: &str) -> Option<DeviceTraffic> {
    let mut numbers = stat.split_whitespace().map(|number| number.parse::<u64>());
    let read = numbers.nth(2)?.ok()?;
    let written = numbers.nth(3)?.ok()?;
    Some(DeviceTraffic {
        read_bytes: read.checked_mul(SECTOR_BYTES)?,
        written_bytes: written.checked_mul(SECTOR_BYTES)?,
    })
}

/// What the files below a directory take on disk, in bytes.
pub fn space_bytes(directory: &Path) -> Option<u64> {
    let mut sum_bytes = 0;
    for entry in fs::read_dir(directory).ok()? {
        let path = entry.ok()?.path();
        // A file may go away meanwhile.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        sum_bytes += if found.is_dir() { space_bytes(&path)? } else { found.blocks() * SECTOR_BYTES };
    }
    Some(sum_bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_device_s_numbers_are_its_sectors() {
        let stat = "  100  1  2048  7  200  3  4096  9  0  10  11  0 0 0 0 0 0\n";
        let expected = DeviceTraffic { read_bytes: 2048 * 512, written_bytes: 4096 * 512 };
        assert_eq!(parse_traffic(stat), Some(expected));
        assert_eq!(parse_traffic("1 2 3"), None);
        assert_eq!(parse_traffic("a b c d e f g"), None);
        assert_eq!(DeviceTraffic::after_sync(Path::new("/proc")), None, "there is no device under it");
    }

    #[test]
    fn what_calls_write_is_counted() {
        let io = "rchar: 6976\nwchar: 12\nsyscr: 10\nread_bytes: 4096\nwrite_bytes: 8192\n";
        assert_eq!(parse_calls(io), Some(FileCalls { read_bytes: 6976, written_bytes: 12 }));
        assert_eq!(parse_calls("rchar: 1\n"), None);
        let Some(before) = FileCalls::so_far() else { return println!("SKIPPED: the kernel counts no calls") };
        fs::write(tempfile::NamedTempFile::new().unwrap().path(), vec![1; 100_000]).unwrap();
        assert!(FileCalls::so_far().unwrap().since(&before).written_bytes >= 100_000);
    }

    #[test]
    fn memory_is_read_by_name() {
        let status = "VmPeak:\t 9 kB\nVmRSS:\t   12 kB\nRssAnon:\t 8 kB\nRssFile: x kB\n";
        assert_eq!(status_bytes(status, "VmRSS"), Some(12 << 10));
        assert_eq!(status_bytes(status, "RssAnon"), Some(8 << 10));
        assert_eq!(status_bytes(status, "RssFile"), None);
        assert_eq!(status_bytes(status, "Rss"), None);
        let now = Resident::now();
        assert!(now.all_bytes > now.anonymous_bytes && now.anonymous_bytes > Some(100 << 10), "{now:?}");
    }

    #[test]
    fn working_takes_processor_time() {
        let before = processor_time();
        let mut number = 1_u64;
        while processor_time() < before + Duration::from_millis(5) {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert!(number % 2 == 1);
    }

    #[test]
    fn a_process_is_idle_when_no_thread_works() {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let idle = wait_until_idle(Duration::from_millis(100), Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            assert!(!idle, "a thread was at work");
        });
        // Other tests may be at work beside this one.
        assert!(wait_until_idle(Duration::from_millis(100), Duration::from_secs(60)));
    }

    #[test]
    fn space_is_that_of_all_files() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(space_bytes(&directory.path().join("missing")), None);
        fs::create_dir(directory.path().join("sub")).unwrap();
        fs::write(directory.path().join("a"), vec![1; 100_000]).unwrap();
        fs::write(directory.path().join("sub/b"), vec![1; 50_000]).unwrap();
        let space_bytes = space_bytes(directory.path()).unwrap();
        assert!((150_000..300_000).contains(&space_bytes), "{space_bytes}");
    }
}
