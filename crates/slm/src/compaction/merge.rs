//! The merge of a compaction: the inputs' entries in key order, checked one batch at a time, and copied if they are
//! valid.

use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::files::values_in_order::Values;
use slmdb_engine::read::merge::{Merge, TableKeys, common_prefix};
use slmdb_env::Error;
use slmdb_sync::scheduled::Instant;
use slmdb_table::EntryKind;

use crate::compaction::compactor::Compactor;
use crate::compaction::entry_batch::EntryBatch;
use crate::compaction::inputs;
use crate::compaction::order_schedule::WINDOW;
use crate::compaction::outputs::Outputs;
use crate::compaction::plan::{CompactionReason, Plan, Stopped};
use crate::compaction::validity_check::check_validity;

impl Compactor {
    /// Merges the inputs of a compaction, and copies what is valid to `outputs`. Adds the bytes that it read to
    /// `bytes_read`.
    pub(crate) fn merge(&self, plan: &Plan, outputs: &mut Outputs<'_>, bytes_read: &mut u64) -> Result<(), Stopped> {
        let _held = self.store.context.budget.background.hold(inputs::memory_bytes(plan.inputs.len()));
        let unreadable = |(input, error): (usize, Error)| Stopped::of_input(plan.inputs[input], error);
        let (mut keys, mut values, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
        for (input, &number) in plan.inputs.iter().enumerate() {
            let reader = self.store.tables.reader(number).map_err(|error| unreadable((input, error)))?;
            keys.push(TableKeys::new(number, &reader, &*self.store.tables));
            values.push(Values::new(&reader, inputs::window_bytes(plan.inputs.len())));
            bounds.extend([reader.properties().smallest_key.clone(), reader.properties().largest_key.clone()]);
        }
        let prefix = common_prefix(bounds.iter().map(Vec::as_slice));
        let mut merge = Merge::new(keys, self.store.context.options.comparator.clone(), prefix, (None, None))
            .map_err(unreadable)?;
        let copied = self.merge_valid(plan, &mut merge, &mut values, outputs);
        *bytes_read += merge.sources().map(TableKeys::read_bytes).sum::<u64>();
        *bytes_read += values.iter().map(|values| values.read_bytes).sum::<u64>();
        copied
    }

    fn merge_valid(
        &self,
        plan: &Plan,
        merge: &mut Merge<TableKeys<&Tables>>,
        values: &mut [Values],
        outputs: &mut Outputs<'_>,
    ) -> Result<(), Stopped> {
        let unreadable = |(input, error): (usize, Error)| Stopped::of_input(plan.inputs[input], error);
        let mut batch = EntryBatch::default();
        // The key that was copied last. Later entries with the same key are older versions.
        let (mut copied, mut has_copied) = (Vec::new(), false);
        let mut looked = None;
        while batch.fill(merge).map_err(unreadable)? {
            if plan.reason == CompactionReason::Order && self.has_to_give_way(&mut looked) {
                return Err(Stopped::GivesWay);
            }
            let dropped_through = &mut outputs.deletes_dropped_through;
            let droppable_through = self.state.checkpoints.deletes_droppable_through();
            let checked =
                check_validity(&*self.state.index.keys, &plan.inputs, &batch, droppable_through, dropped_through);
            for ((input, entry), is_valid) in batch.entries().zip(checked.map_err(Stopped::Failed)?) {
                if self.state.compactions.is_stopping() {
                    return Err(Stopped::Closing);
                }
                if !is_valid || (has_copied && copied == entry.key) {
                    continue;
                }
                match entry.kind {
                    EntryKind::Delete => outputs.add(&entry, &[])?,
                    EntryKind::Put => {
                        let value = values[input].value(&entry).map_err(|error| unreadable((input, error)))?;
                        outputs.add(&entry, value)?;
                    }
                }
                copied.clear();
                copied.extend_from_slice(entry.key);
                has_copied = true;
            }
        }
        Ok(())
    }

    /// Whether a merge for order has to end early. Looks once a window; `looked`: when last.
    /// LOCKS: compactions
    fn has_to_give_way(&self, looked: &mut Option<Instant>) -> bool {
        let now = Instant::now();
        if looked.is_some_and(|looked| now - looked < WINDOW) {
            return false;
        }
        *looked = Some(now);
        self.traffic(&mut self.state.compactions.inner.lock()).has_to_give_way()
    }
}
