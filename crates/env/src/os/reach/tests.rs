//! A held directory that is moved, and another one in its place.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::{Env, LockMode, OpenMode, OsEnv};

/// A directory that was held, then moved, and the other one that has its path.
struct Moved {
    env: std::sync::Arc<dyn Env>,
    path: PathBuf,
    now: PathBuf,
    _above: tempfile::TempDir,
}

fn moved() -> Moved {
    let above = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(above.path()).unwrap();
    let (path, now) = (root.join("held"), root.join("now"));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("old"), "mine").unwrap();
    let env = OsEnv::new().hold_directory(&path).unwrap();
    fs::rename(&path, &now).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("old"), "another's").unwrap();
    Moved { env, path, now, _above: above }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_held_directory_is_reached_where_it_was_moved() {
    let Moved { env, path, now, _above } = moved();
    let mut bytes = [0; 4];
    let file = env.open_file(&path.join("old"), OpenMode::Read).unwrap();
    assert_eq!(file.path(), path.join("old"));
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"mine");
    env.open_file(&path.join("new"), OpenMode::CreateNew).unwrap();
    env.rename(&path.join("new"), &path.join("renamed")).unwrap();
    assert!(env.link_file(&path.join("renamed"), &path.join("linked")).unwrap());
    let _lock = env.lock(&path.join("LOCK"), LockMode::Exclusive).unwrap();
    env.create_directory(&path.join("below")).unwrap();
    env.create_directory(&path).unwrap();
    env.sync_directory(&path).unwrap();
    assert_eq!(names(&now), ["LOCK", "below", "linked", "old", "renamed"]);
    let mut listed: Vec<_> = env.list_directory(&path).unwrap().into_iter().map(|entry| entry.name).collect();
    listed.sort();
    assert_eq!(listed, ["LOCK", "below", "linked", "old", "renamed"]);
    assert!(env.exists(&path.join("linked")).unwrap() && env.is_directory(&path).unwrap() == Some(true));
    assert_eq!(env.dax_device(&path.join("linked")).unwrap(), None);
    assert!(env.shares_space(&path, &path.join("linked")));
    assert!(env.available_bytes(&path.join("missing")).is_ok());
    assert_eq!(env.resolved(&path.join("below/x")).unwrap(), now.join("below/x"));
    assert!(env.remove_directory(&path.join("below")).unwrap());
    for name in ["old", "linked", "renamed", "LOCK"] {
        env.remove_file(&path.join(name)).unwrap();
    }
    assert!(!env.remove_directory(&path).unwrap(), "what has its path is another directory");
    assert_eq!((names(&now), names(&path)), (vec![], vec!["old".to_string()]));
    assert_eq!(fs::read(path.join("old")).unwrap(), b"another's");
}

#[test]
fn a_held_directory_is_removed_from_its_path() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("held");
    fs::create_dir(&path).unwrap();
    let env = OsEnv::new().hold_directory(&path).unwrap();
    assert!(env.remove_directory(&path).unwrap());
    assert!(!path.exists());
    env.open_file(&path.join("file"), OpenMode::CreateNew).unwrap_err();
}

#[test]
fn paths_beside_a_held_directory_are_not_in_it() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("held");
    fs::create_dir(&path).unwrap();
    let held = HeldDirectories::default().with(&path).unwrap();
    for (below, is_held, is_below) in
        [("", true, false), ("x", false, true), ("x/y", false, true), ("../x", false, false)]
    {
        let path = path.join(below);
        let place = held.place(&path);
        assert_eq!((place.is_held, place.is_below_held()), (is_held, is_below), "{below}");
    }
    let beside = above.path().join("held-too");
    assert!(!held.place(&beside).is_below_held());
    assert!(HeldDirectories::default().with(&above.path().join("missing")).is_err());
}

#[test]
fn a_copied_directory_has_another_identity() {
    let above = tempfile::tempdir().unwrap();
    let (one, other) = (above.path().join("one"), above.path().join("other"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&other).unwrap();
    let identity = |path: &Path| OsEnv::new().identity(path).unwrap();
    let first = identity(&one);
    assert!(first.is_same(&first) && !first.is_same(&identity(&other)));
    fs::rename(&one, above.path().join("moved")).unwrap();
    assert!(first.is_same(&identity(&above.path().join("moved"))));
    // A number that was used again.
    assert!(!first.is_same(&FileIdentity { born_ns: first.born_ns + 1, ..first }) || first.born_ns == 0);
    assert!(first.is_same(&FileIdentity { born_ns: 0, ..first }));
    OsEnv::new().identity(&one).unwrap_err();
}

#[test]
fn a_pipe_makes_nobody_wait() {
    let above = tempfile::tempdir().unwrap();
    let pipe = above.path().join("MANIFEST");
    rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let file = OsEnv::new().open_file(&pipe, OpenMode::Read).unwrap();
    assert_eq!(file.read_at(&mut [0; 10], 0).map_err(|error| error.kind()), Err(crate::ErrorKind::Io));
}
