//! `export` to a file: whole or not at all, and told.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};

use crate::{Place, Ran, command, slmdb, snapshot};

/// A store with some 350 KB in it, and its export.
fn filled() -> (Place, String) {
    let place = Place::new();
    let lines: String = (0..3000).map(|number| format!("key{number:04}\t{}\n", "x".repeat(100))).collect();
    place.run_with_input("import", &["-"], lines.as_bytes()).expect(0);
    (place, lines)
}

/// Exports with a limit on the size of files, which is smaller than the export.
fn export_within_limit(place: &Place, file: &str) -> Ran {
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -f 64; exec \"$0\" export --db \"$1\" \"$2\"",
            env!("CARGO_BIN_EXE_slmdb"),
            &place.db,
            file,
        ])
        .output()
        .expect("a shell");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    Ran { code: output.status.code(), stdout: output.stdout, stderr }
}

fn names(place: &Place) -> Vec<String> {
    let entries = std::fs::read_dir(place.directory.path()).expect("a readable directory");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("a readable directory").file_name().into_string().expect("a name in UTF-8"))
        .collect();
    names.sort();
    names
}

/// A part of it stayed under the name; the limit ended the process without a word.
#[test]
fn an_export_that_fails_leaves_no_file() {
    let (place, lines) = filled();
    let file = place.path("out.tsv").display().to_string();
    let ran = export_within_limit(&place, &file);
    ran.failed(3, "io");
    assert!(ran.stderr.contains("ulimit -f") && ran.stderr.contains("nothing stays under that name"), "{ran:?}");
    assert!(ran.stderr.contains(" records (") && ran.stderr.contains(&file), "{ran:?}");
    assert_eq!(names(&place), ["db"]);

    std::fs::write(&file, "an older export").unwrap();
    let ran = export_within_limit(&place, &file);
    ran.failed(3, "io");
    assert!(ran.stderr.contains("as it was"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "an older export");
    assert_eq!(names(&place), ["db", "out.tsv"]);

    place.run("export", &[&file]).printed("");
    assert!(std::fs::read_to_string(&file).unwrap() == lines);
}

#[test]
fn a_limit_on_file_sizes_is_told_by_verbs_that_write() {
    let place = Place::new();
    for script in [
        "ulimit -f 64; exec \"$0\" put --db \"$1\" k v",
        "ulimit -f 64; exec \"$0\" import --db \"$1\" /etc/passwd --format paragraphs --key root",
    ] {
        let output = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_slmdb"), &place.db]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).to_string();
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert!(stderr.contains("ulimit -f"), "{stderr}");
    }
}

#[test]
fn what_an_export_replaces_keeps_its_place_and_mode() {
    let (place, lines) = filled();
    let (file, link, dangling) = (place.path("out.tsv"), place.path("link"), place.path("dangling"));
    std::fs::write(&file, "old").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("out.tsv", &link).unwrap();
    symlink("new.tsv", &dangling).unwrap();
    for path in [&link, &dangling] {
        place.run("export", &[path.to_str().unwrap()]).printed("");
        assert!(path.is_symlink());
        assert!(std::fs::read_to_string(path).unwrap() == lines);
    }
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    // A new one is as any program would have made it.
    let other = place.path("other");
    std::fs::write(&other, "").unwrap();
    let new = std::fs::metadata(place.path("new.tsv")).unwrap();
    assert_eq!(new.mode(), std::fs::metadata(&other).unwrap().mode());
    assert_eq!(names(&place), ["dangling", "db", "link", "new.tsv", "other", "out.tsv"]);
}

#[test]
fn what_is_no_regular_file_is_written_straight() {
    let (place, lines) = filled();
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        assert!(place.run("export", &[name]).expect(0).out() == lines, "{name}");
    }
    let redirected = place.path("redirected");
    let output = std::fs::File::create(&redirected).unwrap();
    let inode = output.metadata().unwrap().ino();
    let status = command(&["export", "--db", &place.db, "/dev/stdout"]).stdout(output).status().unwrap();
    assert!(status.success() && std::fs::read_to_string(&redirected).unwrap() == lines);
    assert_eq!(std::fs::metadata(&redirected).unwrap().ino(), inode);
    place.run("export", &["/dev/null"]).printed("");
    if std::path::Path::new("/dev/full").exists() {
        let ran = place.run("export", &["/dev/full"]);
        ran.failed(3, "full");
        assert!(ran.stderr.contains("/dev/full") && !ran.stderr.contains("nothing"), "{ran:?}");
    }
    let fifo = place.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let child = command(&["export", "--db", &place.db, fifo.to_str().unwrap()]).spawn().unwrap();
    let mut read = String::new();
    std::fs::File::open(&fifo).unwrap().read_to_string(&mut read).unwrap();
    assert!(child.wait_with_output().unwrap().status.success() && read == lines);
}

/// SIGINT and SIGTERM leave what was there, and nothing beside it.
#[test]
fn an_interrupted_export_leaves_no_file() {
    use rustix::process::{Pid, Signal, kill_process};
    let place = Place::new();
    let value = "y".repeat(1000);
    let lines: String = (0..40_000).map(|number| format!("{number:06}\t{value}\n")).collect();
    place.run_with_input("import", &["-"], lines.as_bytes()).expect(0);
    // Tried until a signal meets an export that has begun.
    for _ in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("out.tsv");
        let child = command(&["export", "--db", &place.db, file.to_str().unwrap()]).spawn().unwrap();
        while std::fs::read_dir(directory.path()).unwrap().count() == 0 {
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        if output.status.success() {
            assert!(std::fs::read_to_string(&file).unwrap() == lines);
            continue;
        }
        assert_eq!(output.status.code(), Some(130), "{stderr}");
        assert!(left.is_empty(), "{left:?}");
        assert!(stderr.contains("interrupted") && stderr.contains("nothing stays under that name"), "{stderr}");
        return;
    }
    panic!("no export was interrupted");
}

/// Runs a command with a terminal for its standard error, and gives what it showed there. None without `script`.
fn on_a_terminal(line: &str) -> Option<String> {
    let output = Command::new("script").args(["-qec", line, "/dev/null"]).stdin(Stdio::null()).output().ok()?;
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8_lossy(&output.stdout).to_string())
}

#[test]
fn long_commands_show_that_they_go_on() {
    let (place, _) = filled();
    let binary = env!("CARGO_BIN_EXE_slmdb");
    let path = |name: &str| place.path(name).display().to_string();
    for (line, word) in [
        (format!("{binary} export --db {} {}", place.db, path("out")), "exporting"),
        (format!("{binary} export --db {} >{}", place.db, path("out")), "exporting"),
        (format!("{binary} checkpoint --db {} {}", place.db, path("copy")), "copying"),
        (format!("{binary} destroy --yes --db {}", path("copy")), "destroying"),
    ] {
        let Some(shown) = on_a_terminal(&line) else { return };
        assert!(shown.contains(word), "{line}: {shown:?}");
    }
    // Not between records on the same terminal.
    assert!(!on_a_terminal(&format!("{binary} export --db {}", place.db)).unwrap().contains("exporting"));
}

#[test]
fn the_shell_exports_whole_files_or_none() {
    let (place, lines) = filled();
    let mut child = command(&["shell", "--db", &place.db]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let out = place.path("out.tsv");
    std::fs::write(&out, "old").unwrap();
    writeln!(stdin, "export {}\nexport {}/missing/out", out.display(), place.directory.path().display()).unwrap();
    assert_eq!(answers.next().unwrap(), "ok");
    assert!(answers.next().unwrap().starts_with("error io: "));
    assert!(std::fs::read_to_string(&out).unwrap() == lines);
    assert_eq!(names(&place), ["db", "out.tsv"]);
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(3));
    slmdb(&["verify", "--db", &place.db], b"").expect(0);
}

/// The MANIFEST was overwritten, with exit code 0.
#[test]
fn an_export_never_writes_into_a_store() {
    for engine in ["slm", "lab", "tlsm"] {
        let place = Place::new();
        let pool = format!("emulated:{}", place.path("pool").display());
        place.run("put", &["--engine", engine, "--pm", &pool, "k", "v"]).expect(0);
        let other = Place::new();
        other.run("put", &["k", "other"]).expect(0);
        std::fs::create_dir(place.path("db/below")).unwrap();
        symlink(place.path("db"), place.path("link")).unwrap();
        symlink(place.path("db/MANIFEST"), place.path("to-manifest")).unwrap();
        symlink(place.path("db/new"), place.path("to-nothing")).unwrap();
        symlink(place.path("pool"), place.path("to-pool")).unwrap();
        let db = &place.db;
        let mut paths: Vec<String> = ["MANIFEST", "LOCK", "new.tsv", "below/new.tsv", "../db/MANIFEST"]
            .map(|name| format!("{db}/{name}"))
            .into();
        paths.push(format!("{}/MANIFEST", other.db));
        paths.push(format!("{}/new.jsonl", other.db));
        for name in ["link/MANIFEST", "to-manifest", "to-nothing", "pool", "to-pool"] {
            paths.push(place.path(name).display().to_string());
        }
        let pool = || std::fs::read(place.path("pool")).ok();
        let seen = || (snapshot(place.db.as_ref()), snapshot(other.db.as_ref()), pool());
        let before = seen();
        for path in &paths {
            let ran = place.run("export", &[path]);
            ran.failed(3, "invalid");
            assert!(ran.stderr.contains("store"), "{path}: {ran:?}");
        }
        assert!(before == seen(), "something was written");
        let lines: String = paths.iter().map(|path| format!("export {path}\n")).collect();
        let ran = place.run_with_input("shell", &[], lines.as_bytes());
        assert!(ran.expect(3).out().lines().all(|line| line.starts_with("error invalid: ")), "{ran:?}");
        for place in [&place, &other] {
            place.run("verify", &[]).expect(0);
        }
        place.run("demo", &["--keys", "100"]).failed(3, "invalid");
        place.run("get", &["k"]).printed("v\n");
    }
}
