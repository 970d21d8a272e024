//! A file system of a run's own, on a loop device: what the kernel counts of it is the stores' alone, and its read-ahead is what
//! Linux has by default, whatever the machine's disk was set to.
//!
//! The file under it is written and read past the page cache, so that nothing is cached twice. It takes root, and commands that any
//! Debian has (`losetup`, `mkfs.ext4`, `mount`).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate};

/// Linux's own default.
const READ_AHEAD_KIB: u32 = 128;
/// Whoever still looks at the file system when it is to go (an indexer, say) gets so many chances to leave it.
const UNMOUNT_ATTEMPTS: u32 = 50;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(100);

/// A mounted file system, unmounted and removed when this is dropped.
#[derive(Debug)]
pub struct LoopDevice {
    file: PathBuf,
    mount: PathBuf,
}

impl LoopDevice {
    /// Makes one of so many bytes in a directory: the file `device`, with its space taken, and the file system at `mounted`.
    pub fn create(directory: &Path, size_bytes: u64) -> Result<LoopDevice, String> {
        let (file, mount) = (directory.join("device"), directory.join("mounted"));
        if is_mounted(&mount) {
            let mount = mount.display();
            return Err(format!(
                "{mount} is still mounted, by a run that was killed or goes on: `umount {mount}` ends it"
            ));
        }
        let made = LoopDevice { file, mount };
        let failed = |path: &Path, error: std::io::Error| format!("--loop-device: {}: {error}", path.display());
        let file = File::create(&made.file).map_err(|error| failed(&made.file, error))?;
        let taken = fallocate(&file, FallocateFlags::empty(), 0, size_bytes);
        taken.map_err(|error| failed(&made.file, error.into()))?;
        fs::create_dir_all(&made.mount).map_err(|error| failed(&made.mount, error))?;

        let device =
            said("losetup", [OsStr::new("--find"), "--show".as_ref(), "--direct-io=on".as_ref(), made.file.as_ref()])?;
        let mounted = made.format_and_mount(&device);
        // From here on the device goes with what is mounted, even if this process is killed; if nothing is, it goes now.
        let detached = said("losetup", ["--detach", &device]);
        mounted.and(detached).map(|_| made)
    }

    fn format_and_mount(&self, device: &str) -> Result<(), String> {
        let name = device.trim_start_matches("/dev/");
        let read_ahead = PathBuf::from(format!("/sys/block/{name}/queue/read_ahead_kb"));
        fs::write(&read_ahead, READ_AHEAD_KIB.to_string())
            .map_err(|error| format!("--loop-device: {}: {error}", read_ahead.display()))?;
        // Nothing is left for the kernel to initialise while stores are measured.
        said("mkfs.ext4", ["-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", device])?;
        said("mount", [OsStr::new(device), self.mount.as_ref()]).map(drop)
    }

    /// Where the file system is.
    pub fn directory(&self) -> &Path {
        &self.mount
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        for _ in 0..UNMOUNT_ATTEMPTS {
            if !is_mounted(&self.mount) || said("umount", [&self.mount]).is_ok() {
                break;
            }
            thread::sleep(UNMOUNT_PAUSE);
        }
        if is_mounted(&self.mount) {
            eprintln!("slmdb-compare: {0} could not be unmounted; `umount {0}` does it", self.mount.display());
            return;
        }
        let _ = fs::remove_dir(&self.mount);
        let _ = fs::remove_file(&self.file);
    }
}

/// Why none can be had here, if none can.
pub fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it takes root".to_string());
    }
    said("mkfs.ext4", ["-V"]).and_then(|_| said("losetup", ["--find"])).err()
}

/// Whether there is another file system than around it.
fn is_mounted(mount: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
    let around = mount.parent().and_then(device);
    device(mount).is_some_and(|device| Some(device) != around)
}

/// What a command of the system says, or why it failed.
fn said<A: AsRef<OsStr>>(command: &str, arguments: impl IntoIterator<Item = A>) -> Result<String, String> {
    // Such commands are not on every user's path.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(command)
        .env("PATH", path)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_string());
    }
    Err(format!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
