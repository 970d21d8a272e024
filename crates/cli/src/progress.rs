//! Progress bars: on standard error, and only when somebody sits there.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that counts bytes; without a total it turns instead of filling. Drawn only on a terminal, and taken away when
/// it is dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// Progress of `what`, a word or two.
    pub fn of_bytes(what: &'static str, total_bytes: Option<u64>) -> Progress {
        if !io::stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr());
        let template = match total_bytes {
            Some(_) => "{prefix} [{bar:32}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}, {eta} left",
            None => "{prefix} {spinner} {binary_bytes} {binary_bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(what);
        Progress(bar)
    }

    /// So many bytes are done.
    pub fn at(&self, done_bytes: u64) {
        self.0.set_position(done_bytes);
    }

    /// So many bytes are done, of so many.
    pub fn at_of(&self, done_bytes: u64, total_bytes: u64) {
        if self.0.length() != Some(total_bytes) {
            self.0.set_length(total_bytes);
        }
        self.0.set_position(done_bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
