//! What only [`OsEnv`] has: parsing of what the system tells, and the stand-in for `fallocate`.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use super::file::{ZEROS_BYTES, read_fully};
use super::*;

/// What the calls of a system give, one after the other.
fn answers<T>(answers: Vec<io::Result<T>>) -> impl Fn() -> io::Result<T> {
    let left = std::cell::RefCell::new(answers.into_iter());
    move || left.borrow_mut().next().expect("one call too many")
}

fn interrupted<T>() -> io::Result<T> {
    Err(Errno::INTR.into())
}

#[test]
fn interrupted_calls_are_made_again_and_no_others() {
    assert_eq!(retried(answers(vec![interrupted(), interrupted(), Ok(5)])).unwrap(), 5);
    let failed = retried(answers::<()>(vec![interrupted(), Err(Errno::IO.into())]));
    assert_eq!(failed.unwrap_err().raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert_eq!(retried(answers::<()>(vec![Err(Errno::AGAIN.into())])).unwrap_err().kind(), IoErrorKind::WouldBlock);
}

#[test]
fn short_and_interrupted_reads_are_continued_to_the_end() {
    let content = b"all of it";
    let read = |calls: Vec<io::Result<usize>>, length: usize| {
        let (next, mut into) = (answers(calls), vec![0; length]);
        let got = read_fully(&mut into, |rest, at| {
            let some = next()?.min(rest.len()).min(content.len() - at);
            rest[..some].copy_from_slice(&content[at..at + some]);
            Ok(some)
        });
        got.map(|got| into[..got].to_vec())
    };
    assert_eq!(read(vec![Ok(3), interrupted(), Ok(1), Ok(9)], 9).unwrap(), content);
    assert_eq!(read(vec![Ok(3), interrupted(), Ok(9), interrupted(), Ok(0)], 20).unwrap(), content);
    assert!(read(vec![Ok(3), Err(Errno::IO.into())], 9).is_err());
}

#[test]
fn uuids_are_parsed_or_refused() {
    assert_eq!(
        parse_uuid("00010203-0405-0607-0809-0a0b0c0d0eff"),
        Some([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255])
    );
    for wrong in ["", "00010203", "00010203-0405-0607-0809-0a0b0c0d0e0f00", "g0010203-0405-0607-0809-0a0b0c0d0e0f", "ä"]
    {
        assert_eq!(parse_uuid(wrong), None, "{wrong:?}");
    }
}

#[test]
fn the_boot_id_is_that_of_the_system() {
    let env = OsEnv::new();
    assert_eq!(env.boot_id(), env.boot_id());
    if let Ok(text) = fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        assert_eq!(Some(env.boot_id()), parse_uuid(text.trim()));
        assert_ne!(env.boot_id(), [0; 16]);
    }
}

#[test]
fn holders_are_found_in_the_list_of_locks() {
    let list = "1: POSIX  ADVISORY  WRITE 11 fd:01:77 0 EOF\n\
                2: FLOCK  ADVISORY  WRITE 0 fd:01:77 0 EOF\n\
                2: -> FLOCK  ADVISORY  WRITE 12 fd:01:77 0 EOF\n\
                3: OFDLCK ADVISORY  READ -1 fd:01:77 0 EOF\n\
                4: FLOCK  ADVISORY  READ 13 fd:02:77 0 EOF\n\
                5: FLOCK  ADVISORY  READ 14 fd:01:78 0 EOF\n\
                \n\
                6: FLOCK  ADVISORY  READ x fd:01:77 0 EOF\n\
                7: FLOCK  ADVISORY\n\
                8: FLOCK  ADVISORY  READ 15 fd:01:77 0 EOF\n";
    assert_eq!(lock::holder_in_list(list, (0xfd, 1), 77), Some(15));
    assert_eq!(lock::holder_in_list(list, (0xfd, 2), 77), Some(13));
    assert_eq!(lock::holder_in_list(list, (0xfd, 1), 79), None);
}

#[test]
fn zeros_stand_in_for_fallocate_beyond_the_end_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let file = OsFile { file: OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap(), path };
    file.write_at(b"content", 0).unwrap();
    file.append_zeros(3, 5).unwrap();
    assert_eq!(fs::read(&file.path).unwrap(), b"content");
    file.append_zeros(3, 10).unwrap();
    assert_eq!(fs::read(&file.path).unwrap(), b"content\0\0\0");
    let far = 3 * ZEROS_BYTES as u64 + 17;
    file.append_zeros(20, far).unwrap();
    assert_eq!(file.length_bytes().unwrap(), far);
    let read_only = OsFile { file: StdFile::open(&file.path).unwrap(), path: file.path.clone() };
    assert!(read_only.append_zeros(0, far + 1).is_err());
    assert_eq!(file.length_bytes().unwrap(), far);
}

/// It is found out without a change to the file. (What the answer is depends on where temporary files are.)
#[test]
fn a_file_stays_as_it_is_when_it_is_asked_how_it_takes_space() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let file = OsEnv::new().open_file(&path, OpenMode::CreateNew).unwrap();
    file.write_at(b"x", 0).unwrap();
    let takes_it_at_once = file.takes_space_at_once();
    assert_eq!(fs::read(&path).unwrap(), b"x");
    // What can't be written can't take space, and does not say why.
    assert!(OsEnv::new().open_file(&path, OpenMode::Read).unwrap().takes_space_at_once());
    let system = rustix::fs::fallocate(
        fs::File::options().write(true).open(&path).unwrap(),
        rustix::fs::FallocateFlags::empty(),
        0,
        9,
    );
    assert_eq!(system.is_ok(), takes_it_at_once);
}

#[test]
fn a_path_that_does_not_exist_yet_has_its_parents_space() {
    let directory = tempfile::tempdir().unwrap();
    let env = OsEnv::new();
    assert!(env.available_bytes(directory.path()).unwrap() > 0);
    assert!(env.available_bytes(&directory.path().join("not/yet/there")).unwrap() > 0);
    assert!(env.available_bytes(Path::new("not-there-either")).unwrap() > 0);
}

#[test]
fn files_of_one_file_system_share_its_space() {
    let (here, env) = (tempfile::tempdir().unwrap(), OsEnv::new());
    let file = here.path().join("file");
    fs::write(&file, b"").unwrap();
    assert!(env.shares_space(here.path(), &file));
    assert!(!env.shares_space(&file, Path::new("/proc/self")));
    assert!(env.shares_space(&file, &here.path().join("not there")), "unknown counts as yes");
}

#[test]
fn the_current_directory_may_be_named_by_the_empty_path() {
    let env = OsEnv::new();
    env.sync_directory(Path::new("")).unwrap();
    assert!(env.list_directory(Path::new("")).unwrap().iter().any(|entry| entry.name == "Cargo.toml"));
}

#[test]
fn links_are_followed_and_dangling_ones_listed() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), b"12345").unwrap();
    std::os::unix::fs::symlink("file", directory.path().join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.path().join("dangling")).unwrap();
    let mut entries = OsEnv::new().list_directory(directory.path()).unwrap();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let seen: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.length_bytes)).collect();
    assert_eq!(seen, [("dangling", 0), ("file", 5), ("link", 5)]);
}

#[test]
fn the_lock_names_its_holder_also_when_that_is_a_stale_process() {
    let directory = tempfile::tempdir().unwrap();
    let (env, path) = (OsEnv::new(), directory.path().join("LOCK"));
    // What a killed holder leaves behind keeps nobody out.
    fs::write(&path, b"4294967295\n").unwrap();
    let held = env.lock(&path, LockMode::Exclusive).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
    match env.lock(&path, LockMode::Shared) {
        Err(Error::Locked { holder, .. }) => assert_eq!(holder, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(held);
    assert_eq!(fs::read(&path).unwrap(), b"");
}

/// A device in a sysfs of our own, at `place` below it, with files of these names and contents.
fn described(place: &str, subsystem: &str, files: &[(&str, &str)]) -> Result<DaxDevice> {
    let root = tempfile::tempdir().unwrap();
    let device = root.path().join(place);
    fs::create_dir_all(&device).unwrap();
    fs::create_dir_all(root.path().join(subsystem)).unwrap();
    std::os::unix::fs::symlink(root.path().join(subsystem), device.join("subsystem")).unwrap();
    for (name, content) in files {
        let file = device.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    // As `/sys/dev/char` has links only.
    let link = root.path().join("250:1");
    std::os::unix::fs::symlink(&device, &link).unwrap();
    device::in_sysfs(&link, Path::new("/dev/some"))
}

/// A device dax is known by its subsystem and described by sysfs.
#[test]
fn a_device_dax_is_known_and_described_by_sysfs() {
    const NVDIMM: &str = "devices/LNXSYSTM:00/ACPI0012:00/ndbus0/region1/dax1.0/dax1.0";
    let persistent = |size_bytes, alignment_bytes| DaxDevice { size_bytes, alignment_bytes, is_persistent: true };
    let sizes = [("size", "266338304\n"), ("align", "2097152\n")];
    assert_eq!(described(NVDIMM, "bus/dax", &sizes).unwrap(), persistent(254 << 20, 2 << 20));
    // Where kernels had it before.
    for place in ["device/align", "dax_region/align"] {
        let sizes = [("size", "2147483648"), (place, "1073741824")];
        assert_eq!(described(NVDIMM, "class/dax", &sizes).unwrap(), persistent(2 << 30, 1 << 30));
    }
    assert_eq!(described(NVDIMM, "bus/dax", &[("size", "5000000")]).unwrap(), persistent(4 << 20, 2 << 20));

    for place in ["devices/platform/hmem.0/dax0.0", "devices/pci0000:00/0000:00:03.0/virtio1/ndbus0/region0/dax0.0"] {
        let volatile = DaxDevice { is_persistent: false, ..persistent(254 << 20, 2 << 20) };
        assert_eq!(described(place, "bus/dax", &sizes).unwrap(), volatile);
    }

    for (subsystem, files) in [
        ("class/mem", &sizes[..]),
        ("bus/dax", &[("align", "2097152")]),
        ("bus/dax", &[("size", "much"), ("align", "2097152")]),
        ("bus/dax", &[("size", "1048576"), ("align", "2097152")]),
        ("bus/dax", &[("size", "4194304"), ("align", "3145728")]),
        ("bus/dax", &[("size", "4194304"), ("align", "0")]),
    ] {
        let error = described(NVDIMM, subsystem, files).unwrap_err();
        assert!(
            matches!(&error, Error::Unsupported { file: Some(file), .. } if file == Path::new("/dev/some")),
            "{error}"
        );
    }
}

#[test]
fn what_is_neither_file_nor_device_dax_is_refused_unopened() {
    let (env, directory) = (OsEnv::new(), tempfile::tempdir().unwrap());
    let file = directory.path().join("file");
    fs::write(&file, b"").unwrap();
    for place in [directory.path(), &file, &directory.path().join("nothing"), &file.join("below")] {
        assert_eq!(env.dax_device(place).unwrap(), None, "{}", place.display());
    }
    // Opening it would wait for a writer.
    let pipe = directory.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for place in [&pipe, Path::new("/dev/null")] {
        assert!(matches!(env.dax_device(place), Err(Error::Unsupported { .. })), "{}", place.display());
    }
}

#[test]
fn paths_are_resolved_as_far_as_there_is_something() {
    let env = OsEnv::new();
    let directory = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(directory.path()).unwrap();
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("file"), "").unwrap();
    std::os::unix::fs::symlink(root.join("a/b"), root.join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", root.join("dangling")).unwrap();
    for (path, resolved) in [
        ("a/./b/../c", "a/c"),
        ("link", "a/b"),
        ("link/new", "a/b/new"),
        // Where the link leads, and up from there.
        ("link/../new", "a/new"),
        ("missing/../link/new", "a/b/new"),
        ("missing/far", "missing/far"),
        ("file/below", "file/below"),
        ("dangling/new", "dangling/new"),
    ] {
        assert_eq!(env.resolved(&root.join(path)).unwrap(), root.join(resolved), "{path}");
    }
    assert_eq!(env.resolved(Path::new("x")).unwrap(), fs::canonicalize(".").unwrap().join("x"));
    assert_eq!(env.resolved(Path::new("/../..")).unwrap(), Path::new("/"));
}

#[test]
fn a_directory_is_told_from_a_file_and_from_nothing() {
    let env = OsEnv::new();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    for (path, is_directory) in [("", Some(true)), ("file", Some(false)), ("file/below", None), ("missing", None)] {
        assert_eq!(env.is_directory(&directory.path().join(path)).unwrap(), is_directory, "{path}");
    }
}

#[test]
fn only_what_has_not_begun_may_be_tried_again() {
    let failed = |operation, errno: Errno| Error::io(operation, "f", errno.into());
    for (operation, errno, is_lack) in [
        ("open", Errno::MFILE, true),
        ("sync directory", Errno::NFILE, true),
        ("map", Errno::NOMEM, true),
        (crate::START_THREAD, Errno::AGAIN, true),
        ("sync", Errno::NOMEM, false),
        ("sync directory", Errno::NOMEM, false),
        ("write", Errno::AGAIN, false),
        ("write", Errno::NOMEM, false),
        ("open", Errno::IO, false),
    ] {
        let error = failed(operation, errno);
        assert_eq!((error.is_passing_lack(), error.may_be_tried_again()), (is_lack, is_lack), "{error}");
    }
    let full = failed("write", Errno::NOSPC);
    assert!(full.may_be_tried_again() && !full.is_passing_lack());
    assert!(!Error::invalid("x").may_be_tried_again());
}

/// A file whose content is given up keeps its length and can be written.
#[test]
fn a_file_without_its_content_keeps_its_length() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let file = OsEnv::new().open_file(&path, OpenMode::CreateNew).unwrap();
    let content = vec![7; 1 << 20];
    file.write_at(&content, 0).unwrap();
    file.sync_data().unwrap();
    file.give_up_content();
    let mut found = fs::read(&path).unwrap();
    assert!(found == content || found == vec![0; content.len()]);
    file.write_at(b"new", 5000).unwrap();
    found[5000..5003].copy_from_slice(b"new");
    assert!(fs::read(&path).unwrap() == found);
}

/// The system takes the advice: an error of the call would be seen nowhere else.
#[cfg(target_os = "linux")]
#[test]
fn what_is_written_goes_on_its_way_to_the_device() {
    let directory = tempfile::tempdir().unwrap();
    let file = fs::File::create(directory.path().join("file")).unwrap();
    file.write_all_at(&[7; 1 << 20], 0).unwrap();
    assert!(write_back::begin(&file, 0, 1 << 20));
    // Descriptors that have no pages.
    let (_reader, pipe) = io::pipe().unwrap();
    assert!(!write_back::begin(&fs::File::from(std::os::fd::OwnedFd::from(pipe)), 0, 4096));
}
