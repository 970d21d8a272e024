//! A copy has no pool: its lists are written into table files of the same levels.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::files::file_names as names;
use slmdb_engine::files::file_records::file_record;
use slmdb_engine::read::merge::Source;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::store::tier::Held;
use slmdb_env::{Env, Result};
use slmdb_levels::{EntrySource, Run, Version};
use slmdb_manifest::{FileRecord, StoreState};
use slmdb_order::EntryKind;
use slmdb_table::{TableBuilder, TableForm, TableOptions};

use crate::persistent_skiplist::run::TlsmRun;
use crate::state::TlsmState;

/// The levels of one moment.
pub(crate) struct HeldLists<'t> {
    store: &'t Parts,
    version: Arc<Version<TlsmRun>>,
}

impl HeldLists<'_> {
    /// The levels as they are.
    pub(crate) fn of<'t>(store: &'t Parts, state: &TlsmState) -> HeldLists<'t> {
        HeldLists { store, version: state.levels.current() }
    }

    fn list(&self, number: u32) -> Option<&Arc<TlsmRun>> {
        self.version.runs().map(|(_, run)| run).find(|run| run.number() == number && !run.is_file())
    }
}

impl Held for HeldLists<'_> {
    fn holds(&self, state: &StoreState) -> bool {
        state.lists.keys().all(|&number| self.list(number).is_some())
    }

    fn write_into(&self, env: &dyn Env, directory: &Path, state: &mut StoreState) -> Result<()> {
        for (number, record) in std::mem::take(&mut state.lists) {
            let Some(list) = self.list(number) else { continue };
            let options = &self.store.context.options;
            let table = TableOptions { form: TableForm::LEVELS, ..options.table() };
            let (path, order) = (names::table(directory, number), options.comparator.clone());
            let mut builder = TableBuilder::new_in_order(env, &path, number, state.files_uuid, table, order)?;
            let (mut source, mut key) = (list.source(0)?, Vec::new());
            while source.advance()? {
                let (sequence, kind) = (source.sequence(), source.kind());
                key.clear();
                key.extend_from_slice(source.key());
                let value = if kind == EntryKind::Put { source.value()? } else { &[] };
                builder.add(&key, sequence, kind, value)?;
            }
            let made = builder.finish()?;
            let copied =
                FileRecord { level: record.level, live_keys: 0, ..file_record(&made.properties, made.length_bytes) };
            state.files.insert(number, copied);
        }
        Ok(())
    }
}
