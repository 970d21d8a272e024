//! Commands that are asked to end, or killed, while they have something in hand.

use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Place, command};

/// An import that reads a pipe that stays open.
fn import_from_pipe(place: &Place, options: &[&str]) -> (Child, ChildStdin) {
    let arguments = [&["import", "--db", &place.db], options, &["-"]].concat();
    let mut child = command(&arguments).spawn().expect("the binary starts");
    let pipe = child.stdin.take().expect("a pipe");
    (child, pipe)
}

fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|number| format!("k{number:06}\tv\n")).collect()
}

/// Waits until everything that was written has been read.
fn wait_until_read(pipe: &ChildStdin) {
    while rustix::io::ioctl_fionread(pipe.as_fd()).expect("the length of a pipe") > 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("the child is there");
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

#[test]
fn an_interrupted_import_keeps_what_it_has_read() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let place = Place::new();
        let (child, mut pipe) = import_from_pipe(&place, &[]);
        pipe.write_all(lines(0..1999).as_bytes()).unwrap();
        pipe.write_all(b"cut short\there is no e").unwrap();
        wait_until_read(&pipe);
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let stderr = stderr(&output);
        assert!(stderr.starts_with("imported 1999, skipped 0 in ") && stderr.contains("interrupted"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert_eq!(place.exported(), lines(0..1999));
    }
}

#[test]
fn an_import_in_the_shell_is_interrupted_and_ends_it() {
    let place = Place::new();
    let fifo = place.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let mut child = command(&["shell", "--db", &place.db]).spawn().unwrap();
    writeln!(child.stdin.as_mut().unwrap(), "import {}\nput later 1", fifo.display()).unwrap();
    let mut writer = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    writer.write_all(lines(0..10).as_bytes()).unwrap();
    while rustix::io::ioctl_fionread(&writer).unwrap() > 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    send(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let answers = String::from_utf8_lossy(&output.stdout).to_string();
    assert!(answers.starts_with("error ") && answers.lines().count() == 1, "{answers}");
    assert_eq!(place.exported(), lines(0..10));
}

/// Records that were read waited in memory until a batch was full.
#[test]
fn what_is_read_is_stored_before_more_is_waited_for() {
    let mut wait = Duration::from_millis(20);
    for _ in 0..9 {
        let place = Place::new();
        let (mut child, mut pipe) = import_from_pipe(&place, &[]);
        pipe.write_all(lines(0..10).as_bytes()).unwrap();
        wait_until_read(&pipe);
        std::thread::sleep(wait);
        child.kill().unwrap();
        child.wait().unwrap();
        let ran = place.run("export", &[]);
        if ran.code == Some(0) && ran.out() == lines(0..10) {
            return;
        }
        wait *= 2;
    }
    panic!("what was read is not stored while the import waits");
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let place = Place::new();
    let mut child = Command::new("sh")
        .args(["-c", "trap '' INT; exec \"$0\" import --db \"$1\" -", env!("CARGO_BIN_EXE_slmdb"), &place.db])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(lines(0..1).as_bytes()).unwrap();
    wait_until_read(&pipe);
    send(&child, Signal::INT);
    pipe.write_all(lines(1..2).as_bytes()).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && stderr(&output).starts_with("imported 2, "), "{output:?}");
}
