//! SIGINT and SIGTERM while a command has something in hand that it must bring to an end.
//!
//! The first signal is told to the command, which ends in order. The second one ends the process at once, and so does
//! any while nobody watches. A signal that was ignored when the process began stays so (`nohup`, a script's `trap ''`).

use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level};

use crate::failure::Failure;

static SIGNALS: OnceLock<Signals> = OnceLock::new();

/// What the handlers of signals set. They are registered once: without them a signal would have no effect afterwards.
struct Signals {
    /// The next signal ends the process.
    deadly: Arc<AtomicBool>,
    /// The signal that came; 0 for none.
    caught: Arc<AtomicUsize>,
    /// Becomes readable with a signal.
    woken: UnixStream,
}

impl Signals {
    fn register() -> io::Result<Signals> {
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let signals = Signals { deadly: Arc::new(AtomicBool::new(true)), caught: Arc::default(), woken };
        for signal in [SIGINT, SIGTERM] {
            if is_ignored(signal) {
                continue;
            }
            // They run in this order, so the first signal makes the second one deadly.
            flag::register_conditional_default(signal, signals.deadly.clone())?;
            flag::register(signal, signals.deadly.clone())?;
            flag::register_usize(signal, signals.caught.clone(), signal.unsigned_abs() as usize)?;
            low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(signals)
    }
}

/// Whether the process was started with `signal` ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// A watch for signals that ask the process to end. One at a time; they are deadly again when it is dropped.
pub struct Interruption(&'static Signals);

impl Interruption {
    /// Watches from now on.
    pub fn watch() -> io::Result<Interruption> {
        let signals = match SIGNALS.get() {
            Some(signals) => signals,
            None => {
                let signals = Signals::register()?;
                SIGNALS.get_or_init(|| signals)
            }
        };
        let mut woken = &signals.woken;
        while woken.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0) {}
        signals.caught.store(0, Ordering::SeqCst);
        signals.deadly.store(false, Ordering::SeqCst);
        Ok(Interruption(signals))
    }

    /// Fails with [`Failure::Interrupted`] once a signal has come.
    pub fn check(&self) -> Result<(), Failure> {
        match self.0.caught.load(Ordering::SeqCst) {
            0 => Ok(()),
            signal => Err(Failure::Interrupted(signal as u8)),
        }
    }

    /// Whether reading `input` would not wait.
    pub fn is_ready(&self, input: BorrowedFd<'_>) -> io::Result<bool> {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        Ok(poll(&mut [PollFd::from_borrowed_fd(input, PollFlags::IN)], Some(&none))? > 0)
    }

    /// Waits until there is something to read in `input`, or a signal comes; that is an error with a
    /// [`Failure::Interrupted`] in it.
    pub fn wait_for(&self, input: BorrowedFd<'_>) -> io::Result<()> {
        loop {
            self.check().map_err(io::Error::other)?;
            let mut files = [PollFd::from_borrowed_fd(input, PollFlags::IN), PollFd::new(&self.0.woken, PollFlags::IN)];
            match poll(&mut files, None) {
                Ok(_) if !files[0].revents().is_empty() => return self.check().map_err(io::Error::other),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        self.0.deadly.store(true, Ordering::SeqCst);
    }
}

/// Makes a write beyond the limit on the size of files (`ulimit -f`) an error, where it would end the process without a
/// word.
pub fn survive_file_size_limit() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}
