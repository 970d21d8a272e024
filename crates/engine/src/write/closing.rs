//! Closing a store, whichever engine has it: the background work ends, the engine leaves what it wants to leave, the log
//! becomes durable, and the pool is sealed.

use slmdb_env::Result;
use slmdb_manifest::Edit;
use slmdb_sync::scheduled::Mutex;
use tracing::field::Empty;
use tracing::info_span;

use super::write_path::WritePath;
use crate::background::workers::Working;
use crate::context::StoreContext;
use crate::files::catalog::Catalog;
use crate::observe::spans::timed;

/// Refuses writes from now on, seals the store if that was not done before, and delivers all events.
pub fn close_once(context: &StoreContext, seal: impl FnOnce() -> Result<()>) -> Result<()> {
    let is_sealed = context.health.close() || context.options.read_only;
    let closed = if is_sealed { Ok(()) } else { timed(&*context.env, info_span!("close", ms = Empty), seal) };
    context.events.end();
    closed
}

impl WritePath {
    /// Ends the background work; `stop` ends what waits for a compaction. Writers that wait give up. The cause, if
    /// the store has failed.
    /// LOCKS: memtables; those of the steps
    pub fn end_work(&self, working: &Mutex<Working>, stop: impl FnOnce()) -> Result<()> {
        self.memtables.lock().closing = true;
        stop();
        self.wake();
        let working = std::mem::take(&mut *working.lock());
        working.finish();
        self.context.health.failure().map_or(Ok(()), |cause| Err(cause.clone()))
    }

    /// Ends the log of a store that closes: makes it durable, and records where it ends. What was set aside is free then.
    /// REQUIRES: the background work has ended.
    /// LOCKS: memtables; catalog; reserve; arenas
    pub fn seal_log(&self, catalog: &Catalog) -> Result<()> {
        // Writers that reserved a place before the store was closed still fill it.
        let last_sequence = self.memtables.lock().next_sequence - 1;
        self.publication.wait_for(last_sequence);
        self.sync_arenas()?;
        let (active, spare) = {
            let mut memtables = self.memtables.lock();
            (memtables.active.take(), memtables.spare.take())
        };
        catalog.commit(|_| Edit {
            arenas_removed: spare.iter().map(|spare| spare.memtable.generation()).collect(),
            closed_at_sequence: Some(last_sequence),
            ..Edit::default()
        })?;
        catalog.reserve.discard()?;
        for space in active.iter().chain(&spare).filter_map(|filling| filling.space.as_ref()) {
            space.discard(&*self.context.env)?;
        }
        if let Some(spare) = spare {
            self.arenas.retire(spare.memtable)?;
        }
        self.arenas.tidy(active.as_ref().map(|active| &**active.memtable))
    }
}
