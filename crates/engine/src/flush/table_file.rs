//! [`write_table`]: the table file of an Immutable MemTable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_table::{FinishedTable, TableBuilder, TableForm, TableOptions};

use super::older_versions::OlderVersions;
use crate::context::StoreContext;
use crate::files::file_names as names;
use crate::space::reserved_file::ReservedFile;
use crate::write::memtables::Immutable;

/// How a MemTable is written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Form {
    /// How its table file is searched.
    pub table: TableForm,
    /// Deletes are written, too, that are not the newest version of their key and that a snapshot sees.
    pub has_older_deletes: bool,
}

/// Writes table file `number`: the newest version of each key of a MemTable, and older ones that snapshots at these
/// moments see. It goes into the space that was set aside for it, if there is any. The file and its name are durable on
/// return.
pub fn write_table(
    context: &StoreContext,
    immutable: &Immutable,
    number: u32,
    moments: Vec<u64>,
    form: Form,
) -> Result<(FinishedTable, OlderVersions)> {
    let env = &*context.env;
    let path = names::table(&context.directory, number);
    let options = TableOptions { form: form.table, ..context.options.table() };
    let order = context.options.comparator.clone();
    let space = immutable.space.as_ref().map_or(Ok(None), |space| space.take(env, &path))?;
    let mut builder = match space {
        Some(file) => TableBuilder::in_file(file, env, &path, number, context.files_uuid, options, order)?,
        None => TableBuilder::new_in_order(env, &path, number, context.files_uuid, options, order)?,
    };
    let older = OlderVersions::write(immutable, moments, form.has_older_deletes, |entry| {
        builder.add(entry.key, entry.sequence, entry.kind, entry.value)
    })?;
    let finished = builder.finish()?;
    env.sync_directory(&context.directory)?;
    context.counted.file_bytes_written.fetch_add(finished.length_bytes, Ordering::Relaxed);
    Ok((finished, older))
}

/// Removes what a failed flush has left of table file `number`. Its space is set aside again, if it was.
pub fn give_up_table(context: &StoreContext, immutable: &Immutable, number: u32) -> Result<()> {
    let path = names::table(&context.directory, number);
    let put_back = |space: &Arc<ReservedFile>| space.put_back(&*context.env, &path).unwrap_or(false);
    if context.env.exists(&path)? && !immutable.space.as_ref().is_some_and(put_back) {
        context.env.remove_file(&path)?;
    }
    Ok(())
}
