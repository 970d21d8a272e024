//! A memory limit for one process, by a control group of version 1 or 2.
//!
//! The kernel counts what a group's processes touch first, the page cache included: that is what makes reads come from the device.
//! A pool on tmpfs that emulates persistent memory counts for whoever touched it first, too. So a process is in the group
//! for its work, and outside while it opens a store, which is when a pool gets its pages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use slmdb_bench::store::{Opener, Store, Which};
use slmdb_bench::{Error, Result};

/// The file with a group's processes, in both versions.
const PROCESSES: &str = "cgroup.procs";

/// A control group with a memory limit, removed when this is dropped.
#[derive(Debug)]
pub struct Group {
    directory: PathBuf,
}

impl Group {
    /// Makes one, within or beside the group that this process is in; or why that can't be had.
    pub fn create(name: &str, limit_bytes: u64) -> Result<Group, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let (mounts, own) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
        let place = Place::find(&mounts, &own).ok_or("no control group of memory is mounted")?;
        Group::create_at(&place, name, limit_bytes)
    }

    fn create_at(place: &Place, name: &str, limit_bytes: u64) -> Result<Group, String> {
        let directory = place.prepare()?.join(name);
        fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let group = Group { directory };
        group.write(place.limit_file(), limit_bytes)?;
        // What is swapped out is not in memory, but was not meant to be free of the limit. A kernel that does not count it has no such file.
        let (file, number) = match place {
            Place::One { .. } => ("memory.memsw.limit_in_bytes", limit_bytes),
            Place::Two { .. } => ("memory.swap.max", 0),
        };
        if group.directory.join(file).exists() {
            group.write(file, number)?;
        }
        Ok(group)
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn write(&self, file: &str, number: u64) -> Result<(), String> {
        let path = self.directory.join(file);
        fs::write(&path, number.to_string()).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that still has a process can't be removed, and is of no harm.
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Where a group can be made.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Version 1: below our own group, so that its limits hold, too.
    One { own: PathBuf },
    /// Version 2: beside our own group, as a group with processes has no groups below.
    Two { mount: PathBuf, own: PathBuf },
}

impl Place {
    /// By /proc/self/mountinfo and /proc/self/cgroup.
    fn find(mounts: &str, own: &str) -> Option<Place> {
        let version_1 = own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let is_memory = parts.next()?.split(',').any(|controller| controller == "memory");
            is_memory.then(|| parts.next()).flatten()
        });
        if let Some(path) = version_1 {
            let (mount, root) =
                mounted(mounts, |kind, options| kind == "cgroup" && options.split(',').any(|o| o == "memory"))?;
            return Some(Place::One { own: below(&mount, &root, path) });
        }
        let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
        let (mount, root) = mounted(mounts, |kind, _| kind == "cgroup2")?;
        let own = below(&mount, &root, path);
        Some(Place::Two { mount, own })
    }

    /// A directory in which a group can be made.
    fn prepare(&self) -> Result<PathBuf, String> {
        match self {
            Place::One { own } => Ok(own.clone()),
            Place::Two { mount, own } => {
                let beside = if own == mount { None } else { own.parent() };
                let mut why = String::new();
                for parent in beside.into_iter().chain([mount.as_path()]) {
                    match enable_memory(parent) {
                        Ok(()) => return Ok(parent.to_path_buf()),
                        Err(error) => why = format!("{}: {error}", parent.display()),
                    }
                }
                Err(why)
            }
        }
    }

    fn limit_file(&self) -> &'static str {
        match self {
            Place::One { .. } => "memory.limit_in_bytes",
            Place::Two { .. } => "memory.max",
        }
    }
}

/// Sees to it that groups below this one of version 2 have memory limits.
fn enable_memory(group: &Path) -> io::Result<()> {
    let control = group.join("cgroup.subtree_control");
    if !fs::read_to_string(&control)?.split_whitespace().any(|controller| controller == "memory") {
        fs::write(&control, "+memory")?;
    }
    Ok(())
}

/// Where a file system is mounted that `is_it` by kind and superblock options, and which part of it.
fn mounted(mounts: &str, is_it: impl Fn(&str, &str) -> bool) -> Option<(PathBuf, String)> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let mut before = before.split(' ').skip(3);
        let (root, mount) = (before.next()?, before.next()?);
        is_it(kind, options).then(|| (PathBuf::from(mount), root.to_string()))
    })
}

/// A group's directory, given where the hierarchy is mounted and from which group on.
fn below(mount: &Path, root: &str, group: &str) -> PathBuf {
    let group = group.strip_prefix(root).unwrap_or(group);
    mount.join(group.trim_start_matches('/'))
}

/// Opens stores outside a group, and has this process in it for the rest of the time.
pub struct Confined {
    inner: Box<dyn Opener>,
    inside: PathBuf,
    outside: PathBuf,
}

impl Confined {
    /// For a group's directory.
    pub fn new(inner: Box<dyn Opener>, group: &Path) -> Result<Confined, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let place = Place::find(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?);
        let (Place::One { own } | Place::Two { own, .. }) = place.ok_or("no control group of memory is mounted")?;
        Ok(Confined { inner, inside: group.to_path_buf(), outside: own })
    }
}

/// Moves this process, all its threads, to a group.
fn move_to(group: &Path) -> Result<()> {
    let path = group.join(PROCESSES);
    fs::write(&path, process::id().to_string())
        .map_err(|error| Error::Refused(format!("{}: {error}; run without --memory-limit", path.display())))
}

impl Opener for Confined {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn open(&self, which: Which, sync: bool) -> Result<Box<dyn Store>> {
        move_to(&self.outside)?;
        let opened = self.inner.open(which, sync);
        move_to(&self.inside)?;
        opened
    }

    fn directory(&self) -> Option<&Path> {
        self.inner.directory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                      36 31 0:33 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n";
    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1_IN_CONTAINER: &str = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";

    #[test]
    fn our_own_group_is_found_in_both_versions() {
        let one = |own: &str| Some(Place::One { own: own.into() });
        let both = format!("{V2}{V1}");
        assert_eq!(Place::find(&both, "8:pids:/\n4:memory:/a/b\n0::/\n"), one("/sys/fs/cgroup/memory/a/b"));
        assert_eq!(Place::find(V1_IN_CONTAINER, "4:memory:/docker/abc\n"), one("/sys/fs/cgroup/memory/"));
        let two = |own: &str| Some(Place::Two { mount: "/sys/fs/cgroup".into(), own: own.into() });
        assert_eq!(Place::find(V2, "0::/user.slice/session.scope\n"), two("/sys/fs/cgroup/user.slice/session.scope"));
        assert_eq!(Place::find("", "0::/\n"), None);
        assert_eq!(Place::find(V2, "4:memory:/a\n"), None);
    }

    /// Of version 2 this sees which files are written, and what; that the kernel heeds them was tried by hand.
    #[test]
    fn a_group_of_version_2_is_made_beside_our_own_or_at_the_top() {
        let mount = tempfile::tempdir().unwrap();
        let (top, slice) = (mount.path().to_path_buf(), mount.path().join("user.slice"));
        let place = Place::Two { mount: top.clone(), own: slice.join("session.scope") };
        let error = Group::create_at(&place, "a", 1 << 20).unwrap_err();
        assert!(error.contains("cgroup.subtree_control") || error.contains("No such file"), "{error}");

        let controllers = |group: &Path| fs::read_to_string(group.join("cgroup.subtree_control")).unwrap();
        fs::write(top.join("cgroup.subtree_control"), "cpu memory\n").unwrap();
        let group = Group::create_at(&place, "a", 1 << 20).unwrap();
        assert_eq!(group.directory(), top.join("a"), "where our own group's parent gives no memory limits");
        assert_eq!(fs::read_to_string(top.join("a/memory.max")).unwrap(), "1048576");
        assert_eq!(controllers(&top), "cpu memory\n", "what is on already is left alone");

        fs::create_dir(&slice).unwrap();
        fs::write(slice.join("cgroup.subtree_control"), "cpu\n").unwrap();
        let group = Group::create_at(&place, "b", 1 << 20).unwrap();
        assert_eq!(group.directory(), slice.join("b"));
        assert_eq!(controllers(&slice), "+memory");
    }
}
