//! How much memory the system could still give.
//!
//! Linux says so for the machine (`MemAvailable`, its caches of files included). A control group may have a limit of its own, of which its
//! processes' memory is taken off; caches of files count there, too, but make place. Both versions of control groups are
//! asked, each group up to the topmost that can be seen.

use std::fs;
use std::path::{Path, PathBuf};

const GROUPS: &str = "/sys/fs/cgroup";

/// In bytes; `None` where the system does not tell.
pub(super) fn to_give_bytes() -> Option<u64> {
    let machine = available_bytes(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let in_groups = groups(&own, Path::new(GROUPS)).into_iter().filter_map(|group| group.to_give_bytes());
    Some(in_groups.fold(machine, u64::min))
}

/// What `/proc/meminfo` says is available.
fn available_bytes(text: &str) -> Option<u64> {
    let kib = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A control group: its directory, and how its files are named.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    directory: PathBuf,
    limit: &'static str,
    /// What in `memory.stat` can't make place.
    lasting: [&'static str; 2],
}

/// The groups that a process is in, by its `/proc/self/cgroup`, and all above them.
fn groups(own: &str, root: &Path) -> Vec<Group> {
    let mut groups = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, limit, lasting) = match controllers {
            "" => (root.to_path_buf(), "memory.max", ["anon", "shmem"]),
            listed if listed.split(',').any(|one| one == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes", ["total_rss", "total_shmem"])
            }
            _ => continue,
        };
        // In a container the path may be that of the machine, and what is there the container's own.
        let path = Path::new(path.trim_start_matches('/'));
        groups.extend(path.ancestors().map(|part| Group { directory: root.join(part), limit, lasting }));
    }
    groups
}

impl Group {
    fn to_give_bytes(&self) -> Option<u64> {
        // Without a limit it says `max`, or, in the first version, a number that no machine reaches.
        let limit_bytes: u64 = fs::read_to_string(self.directory.join(self.limit)).ok()?.trim().parse().ok()?;
        let stat = fs::read_to_string(self.directory.join("memory.stat")).unwrap_or_default();
        Some(limit_bytes.saturating_sub(self.lasting.iter().map(|name| number_of(&stat, name)).sum()))
    }
}

/// The number behind a name that begins a line.
fn number_of(stat: &str, name: &str) -> u64 {
    let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(its, _)| *its == name).and_then(|(_, number)| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_what_the_system_says() {
        let text = "MemTotal:       24683748 kB\nMemFree: 1 kB\nMemAvailable:   23920000 kB\n";
        assert_eq!(available_bytes(text), Some(23_920_000 * 1024));
        for wrong in ["", "MemAvailable: much kB", "MemAvailable: 5 MB", "MemAvailable: 99999999999999999999 kB"] {
            assert_eq!(available_bytes(wrong), None, "{wrong}");
        }
        if fs::exists("/proc/meminfo").unwrap() {
            assert!(to_give_bytes().unwrap() > 1 << 20);
        }
    }

    #[test]
    fn the_tightest_limit_of_all_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |group: &str, name: &str, text: &str| {
            fs::create_dir_all(root.path().join(group)).unwrap();
            fs::write(root.path().join(group).join(name), text).unwrap();
        };
        write("", "memory.max", "max\n");
        write("outer", "memory.max", "5000\n");
        write("outer", "memory.stat", "anon 1000\nfile 700\nshmem 200\n");
        write("outer/inner", "memory.max", "9000\n");
        write("memory/first", "memory.limit_in_bytes", "7000\n");
        write("memory/first", "memory.stat", "cache 5\nrss 1\ntotal_rss 6000\ntotal_shmem 1\n");
        let given = |own: &str| {
            let groups = groups(own, root.path());
            groups.iter().filter_map(Group::to_give_bytes).min()
        };
        assert_eq!(given("0::/outer/inner\n"), Some(3800));
        assert_eq!(given("0::/\n"), None);
        assert_eq!(given("0::/gone/elsewhere\n"), None);
        assert_eq!(given("5:cpu,memory:/first\n1:name=systemd:/x\n0::/\n"), Some(999));
        assert_eq!(given("nonsense\n\n::\n"), None);
    }
}
