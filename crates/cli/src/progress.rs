//! Progress bars: on standard error, and only when somebody sits there.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a bar turns that shows nothing but the time.
const BETWEEN_TURNS: Duration = Duration::from_millis(100);

/// A bar that counts; without a total it turns instead of filling. Drawn only on a terminal, and taken away when
/// it is dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// Progress of `what`, a word or two, in bytes.
    pub fn of_bytes(what: &'static str, total_bytes: Option<u64>) -> Progress {
        Progress::new(what, total_bytes, "{binary_bytes}", "{binary_total_bytes}", "{binary_bytes_per_sec}")
    }

    /// Progress of `what`, in operations.
    pub fn of_operations(what: &'static str, total: Option<u64>) -> Progress {
        Progress::new(what, total, "{human_pos}", "{human_len}", "{per_sec}")
    }

    /// Of `what` nothing is known but that it goes on: the time it takes.
    pub fn of_time(what: &'static str) -> Progress {
        let progress = Progress::new(what, None, "{elapsed}", "", "");
        if !progress.0.is_hidden() {
            progress.0.enable_steady_tick(BETWEEN_TURNS);
        }
        progress
    }

    fn new(what: &'static str, total: Option<u64>, done: &str, of: &str, rate: &str) -> Progress {
        if !io::stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let template = match total {
            Some(_) => format!("{{prefix}} [{{bar:32}}] {done}/{of} {rate}, {{eta}} left"),
            None => format!("{{prefix}} {{spinner}} {done} {rate}"),
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(what);
        Progress(bar)
    }

    /// So much is done.
    pub fn at(&self, done: u64) {
        self.0.set_position(done);
    }

    /// So much is done, of so much.
    pub fn at_of(&self, done: u64, total: u64) {
        if self.0.length() != Some(total) {
            self.0.set_length(total);
        }
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
