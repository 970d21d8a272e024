//! Who is called before an operation.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::MemoryEnv;

type Call = Arc<dyn Fn() + Send + Sync>;

/// What operations' lines begin with, and who is called before them.
#[derive(Default)]
pub(super) struct Interceptions(Vec<(String, Call)>);

impl fmt::Debug for Interceptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|(what, _)| what)).finish()
    }
}

impl MemoryEnv {
    /// Calls somebody before each operation whose line begins like this (`link /db`, `sync /db/MANIFEST`), on its thread, until
    /// [`MemoryEnv::clear_calls`]. The operation goes on once he returns; others go on meanwhile. For links, and syncs of files.
    pub fn call_before(&self, what: &str, call: impl Fn() + Send + Sync + 'static) {
        self.machine().interceptions.0.push((what.into(), Arc::new(call)));
    }

    /// Calls nobody any more.
    pub fn clear_calls(&self) {
        let calls = std::mem::take(&mut self.machine().interceptions);
        // They may hold a clone of this machine, and what ends with them may use it.
        drop(calls);
    }

    /// Before the machine is locked.
    pub(super) fn intercept(&self, operation: &str, path: &Path) {
        let line = format!("{operation} {}", path.display());
        let calls: Vec<Call> = {
            let machine = self.machine();
            let asked = machine.interceptions.0.iter().filter(|(what, _)| line.starts_with(what));
            asked.map(|(_, call)| call.clone()).collect()
        };
        calls.iter().for_each(|call| call());
    }
}
