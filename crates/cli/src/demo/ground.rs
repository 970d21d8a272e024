//! Where the demo works: temporary directories that go away whatever becomes of it.
//!
//! A directory is removed when its owner is dropped, which covers errors and panics. Ctrl-C and SIGKILL run no
//! destructors; for them there is a sweeper, a second process outside the terminal's group that waits for the end of a
//! pipe (the end of this process, whichever way it comes) and then removes what is left.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use slmdb::{ErrorKind, Medium, Options};
use tempfile::TempDir;

use super::machine;
use crate::failure::{Failure, Result};
use crate::replacement::check_outside_stores;
use crate::units;

/// What every directory's name begins with; the sweeper removes no other.
const PREFIX: &str = "slmdb-demo-";

/// Memory with a file system, where there is room for it.
const SHARED_MEMORY: &str = "/dev/shm";

/// The directories, and the sweeper that waits for this process's end.
pub struct Ground {
    stores: Option<TempDir>,
    pool: Option<TempDir>,
    direct: Option<TempDir>,
    sweeper: Option<Child>,
}

impl Ground {
    /// Directories with room for what is needed: for stores inside `parent`, or the system's place for temporary files;
    /// for pools in shared memory if it has the room, else beside the stores, and on persistent memory if there is any.
    pub fn prepare(parent: Option<&Path>, stores_need_bytes: u64, pools_need_bytes: u64) -> Result<Ground> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        if !parent.is_dir() {
            return Err(Failure::invalid(format!("{} is no directory; name one that is there", parent.display())));
        }
        let shared_memory = Path::new(SHARED_MEMORY);
        let roomy = free_bytes(shared_memory).is_ok_and(|free_bytes| free_bytes >= pools_need_bytes);
        // Room without the right to use it is as no room.
        let pool = if roomy { directory_in(shared_memory).ok() } else { None };
        let needed_bytes = if pool.is_some() { stores_need_bytes } else { stores_need_bytes + pools_need_bytes };
        check_outside_stores(&parent.join(PREFIX))?;
        let free = free_bytes(&parent)?;
        if free < needed_bytes {
            let text = format!(
                "the demo needs {} in {}, which has {} free; free some, name another place with --db, or write fewer \
                 keys with --keys",
                units::bytes(needed_bytes),
                parent.display(),
                units::bytes(free)
            );
            return Err(Failure::Told(ErrorKind::Full, text));
        }
        let stores = directory_in(&parent)?;
        let direct =
            machine::direct_mounts().into_iter().find_map(|mount| directory_on(&mount.place, pools_need_bytes));
        let mut ground = Ground { stores: Some(stores), pool, direct, sweeper: None };
        ground.sweeper = Some(ground.start_sweeper()?);
        Ok(ground)
    }

    /// Where stores are made.
    pub fn stores(&self) -> &Path {
        self.stores.as_ref().map_or(Path::new(""), TempDir::path)
    }

    /// Where pools are made.
    pub fn pools(&self) -> &Path {
        self.pool.as_ref().map_or(self.stores(), TempDir::path)
    }

    /// Where pools on persistent memory are made.
    pub fn direct_pools(&self) -> Option<&Path> {
        self.direct.as_ref().map(TempDir::path)
    }

    fn start_sweeper(&self) -> Result<Child> {
        let mut command = Command::new(own_program()?);
        command.arg("demo-sweeper").arg(self.stores());
        command.args([&self.pool, &self.direct].into_iter().flatten().map(TempDir::path));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().map_err(|error| Failure::io("start", command.get_program(), error))
    }

    /// Removes everything, and says if something could not be.
    pub fn clear(mut self) -> Result<()> {
        for directory in [self.stores.take(), self.pool.take(), self.direct.take()].into_iter().flatten() {
            let path = directory.path().to_path_buf();
            directory.close().map_err(|error| Failure::io("remove", path, error))?;
        }
        Ok(())
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.stores = None;
        self.pool = None;
        self.direct = None;
        if let Some(mut sweeper) = self.sweeper.take() {
            // Waiting closes the sweeper's standard input first.
            let _ = sweeper.wait();
        }
    }
}

/// This very program, to be run again.
pub fn own_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| Failure::io("find", "the slmdb program", error))
}

fn directory_in(parent: &Path) -> Result<TempDir> {
    tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent).map_err(|error| Failure::io("create", parent, error))
}

/// A directory on persistent memory, if it is that: a store on it opens.
fn directory_on(mount: &Path, needed_bytes: u64) -> Option<TempDir> {
    if !free_bytes(mount).is_ok_and(|free_bytes| free_bytes >= needed_bytes) {
        return None;
    }
    let directory = directory_in(mount).ok()?;
    let (store, pool) = (directory.path().join("probe"), directory.path().join("probe.pool"));
    let opened = Options::default().medium(Medium::Dax { path: pool.clone() }).open(&store);
    opened.and_then(|db| db.close()).ok()?;
    fs::remove_dir_all(store).and_then(|()| fs::remove_file(pool)).ok()?;
    Some(directory)
}

/// Bytes that can still be written into the file system that holds `path`.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let found = rustix::fs::statvfs(path).map_err(|error| Failure::io("examine", path, error.into()))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The sweeper: waits for the end of standard input, then removes the directories that are still there.
pub fn sweep(directories: &[PathBuf]) {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    let ours = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    // A writer that has lost its demo may still finish a file or two.
    for _ in 0..50 {
        let mut gone = true;
        for directory in directories.iter().filter(|directory| ours(directory)) {
            gone &= match fs::remove_dir_all(directory) {
                Ok(()) => false,
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            };
        }
        if gone {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
}
