//! The lock file: `flock`, and who holds it.
//!
//! `flock` and not `fcntl` locks, because those belong to a process: closing any other descriptor of the file drops
//! them, and two opens in one process don't see each other. A `flock` belongs to one opening of the file, so a second
//! `Db::open` in the same process is refused like any other, and the system releases the lock when its holder dies.
//!
//! The lock is the truth; the process id in the file is only text for people. It is written after the lock is taken and
//! cut off again when it is released. The holder is looked up first in `/proc/locks`, which knows shared holders too,
//! then in the file (if that process still exists), because some systems keep that list empty and some file systems
//! show another device number there.
//!
//! A *shared* lock of a file that is not there is refused (`NotFound`) rather than granted for free: nobody can hold
//! such a lock at that moment, but in the next a writer could make the file, lock it and pull tables away from under a
//! reader that believes itself protected. And making the file is not for a reader, who changes no byte. Every store has
//! the file, because its creator took the lock before anything else was written.

use std::fs::{self, File as StdFile};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::reach::HeldDirectories;
use crate::{Error, Lock, LockMode, Result};

/// A held `flock`; closing the descriptor releases it.
#[derive(Debug)]
struct OsLock {
    file: StdFile,
    mode: LockMode,
}

impl Lock for OsLock {}

impl Drop for OsLock {
    fn drop(&mut self) {
        if self.mode == LockMode::Exclusive {
            // Still locked: nobody else's id is there. A stale id would only mislead, and only if no list of locks is kept.
            let _ = self.file.set_len(0);
        }
        // A child forked in the meantime shares the lock until it executes something; so release it by name.
        let _ = retry_on_intr(|| rustix::fs::flock(&self.file, FlockOperation::Unlock));
    }
}

/// As often as this a lock file may be taken away by others just before it is locked.
const ATTEMPTS_MAX: usize = 100;

/// Takes the lock without waiting.
///
/// Whoever destroys a store removes its lock file while he holds it. A file that was opened before that and locked after
/// it keeps nobody out; so what was locked must still be what the path leads to.
pub(super) fn take(held: &HeldDirectories, path: &Path, mode: LockMode) -> Result<Box<dyn Lock>> {
    for _ in 0..ATTEMPTS_MAX {
        let lock = take_once(held, path, mode)?;
        if held.leads_to(path, &lock.file).map_err(|source| Error::io("look up", path, source))? {
            if mode == LockMode::Exclusive {
                // The id is a courtesy: a full disk must not keep anybody from opening a store and deleting things in it.
                let _ = write_process_id(&lock.file);
            }
            return Ok(Box::new(lock));
        }
    }
    Err(Error::Locked { path: path.to_path_buf(), holder: None })
}

fn take_once(held: &HeldDirectories, path: &Path, mode: LockMode) -> Result<OsLock> {
    let (flags, operation) = match mode {
        LockMode::Exclusive => (OFlags::RDWR | OFlags::CREATE, FlockOperation::NonBlockingLockExclusive),
        LockMode::Shared => (OFlags::RDONLY, FlockOperation::NonBlockingLockShared),
        LockMode::Alone => (OFlags::RDONLY, FlockOperation::NonBlockingLockExclusive),
    };
    let file = StdFile::from(held.open(path, flags).map_err(|source| Error::io("open", path, source))?);
    match retry_on_intr(|| rustix::fs::flock(&file, operation)) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(Error::Locked { path: path.to_path_buf(), holder: patient_holder(&file) });
        }
        Err(errno) => return Err(Error::io("lock", path, errno.into())),
    }
    Ok(OsLock { file, mode })
}

fn write_process_id(file: &StdFile) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)
}

/// As [`holder`], but one who has just taken the lock gets a moment to write its process id.
fn patient_holder(file: &StdFile) -> Option<u32> {
    (0..10).find_map(|_| {
        holder(file).or_else(|| {
            std::thread::sleep(Duration::from_millis(1));
            None
        })
    })
}

/// The process that has `file` locked, as far as can be found out.
fn holder(file: &StdFile) -> Option<u32> {
    let listed = || {
        let metadata = file.metadata().ok()?;
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let device = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
        holder_in_list(&locks, device, metadata.ino())
    };
    listed().or_else(|| holder_in_file(file))
}

/// Looks through lines such as `7: FLOCK  ADVISORY  WRITE 4711 08:01:131074 0 EOF`. Lines with `->` are processes that
/// wait for a lock; a process id of 0 or less is one that can't be seen from here.
pub(super) fn holder_in_list(locks: &str, device: (u32, u32), inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        if words.next()? != "FLOCK" {
            return None;
        }
        let process = words.nth(2)?.parse::<u32>().ok().filter(|&process| process != 0)?;
        let mut place = words.next()?.split(':');
        let major = u32::from_str_radix(place.next()?, 16).ok()?;
        let minor = u32::from_str_radix(place.next()?, 16).ok()?;
        let its_inode = place.next()?.parse::<u64>().ok()?;
        ((major, minor) == device && its_inode == inode).then_some(process)
    })
}

/// The process id in the file, if there is one and that process exists.
fn holder_in_file(file: &StdFile) -> Option<u32> {
    let mut text = [0; 16];
    let length = file.read_at(&mut text, 0).ok()?;
    let process = std::str::from_utf8(&text[..length]).ok()?.trim().parse::<u32>().ok()?;
    // Where there is no /proc at all, believe the file.
    let gone = Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{process}")).exists();
    (!gone).then_some(process)
}
