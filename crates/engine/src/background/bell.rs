//! [`Bell`]: whoever makes work rings it, and the jobs that hear it look.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::crew::Job;

/// Rung where there may be something to do. Before jobs hear it, ringing does nothing: each looks once when it begins.
#[derive(Default)]
pub struct Bell(OnceLock<Vec<Arc<Job>>>);

impl Bell {
    /// These jobs hear it from now on. REQUIRES: none did before.
    pub fn hang(&self, jobs: Vec<Arc<Job>>) {
        let _ = self.0.set(jobs);
    }

    /// Wakes all jobs that hear it. May be called under any lock.
    pub fn ring(&self) {
        self.0.get().into_iter().flatten().for_each(Job::wake);
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Bell").field(&self.0.get().map(Vec::len)).finish()
    }
}
