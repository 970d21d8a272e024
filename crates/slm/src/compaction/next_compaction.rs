//! What a compaction thread does next, in this order: a requested compaction, one that gives space back, one that the
//! policy chooses, inputs that an earlier compaction has left over.

use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_engine::CompactionPolicy;
use slmdb_engine::stall::stall_stats::StallCause;
use slmdb_manifest::StoreState;
use slmdb_sync::scheduled::{Instant, processors};

use crate::compaction::compactor::Compactor;
use crate::compaction::controller::Load;
use crate::compaction::order_schedule::{Counted, Traffic, look_again_in};
use crate::compaction::plan::{CompactionReason, Plan};
use crate::compaction::queue::{CompactionKind, NextCompaction, QueueState};
use crate::selection::garbage_policy;
use crate::selection::live_key_ratio::{garbage, needed_part};
use crate::selection::policy::Choice;

/// A store that was not written to for so long is quiet.
const QUIET: Duration = Duration::from_millis(400);
/// One that was not written to for so long is at rest.
const REST: Duration = Duration::from_secs(5);

impl Compactor {
    /// Looks for something to compact.
    /// LOCKS: catalog, compactions; memtables
    pub(crate) fn next_compaction(&self) -> NextCompaction {
        let compactions = &self.state.compactions;
        loop {
            // The catalog first: it may be held while the disk syncs, and readers that name files must not wait
            // that long for the compactions lock.
            let catalog = self.store.catalog.lock();
            let mut inner = compactions.inner.lock();
            if compactions.is_stopping() || self.store.context.has_failed() {
                return NextCompaction::Never;
            }
            let changes = inner.changes;
            let pause = inner.pause_left();
            let (mut next, mut quiet_in) = (None, None);
            // 1. A requested compaction.
            if let Some(request) = inner.requested.front().cloned() {
                // It waits until none of its files is being compacted or removed. Nothing else begins meanwhile.
                if !self.is_compacting_in(&request, &inner, catalog.state()) {
                    let plan = self.plan_of_range(&request, catalog.state());
                    inner.requested.pop_front();
                    // Nothing to gain: the request is answered at once.
                    if plan.inputs.is_empty() {
                        *request.ended.lock() = Some(Ok(()));
                        compactions.notify();
                        continue;
                    }
                    next = Some((plan, CompactionKind::Manual(request)));
                }
            // 2. Space, if a thread waits for it, or if the disk was found full a short while ago.
            } else if inner.space_wanted.is_some() || pause.is_some() {
                // One at a time: the reserve is enough for one.
                if inner.busy.is_empty() {
                    let wanted = inner.space_wanted;
                    next = self
                        .planner
                        .plan_for_space(&inner, catalog.state(), wanted)
                        .map(|plan| (plan, CompactionKind::Space));
                    // No file gives anything back: report it to the waiting threads, and look for other work.
                    if let (None, Some(wanted)) = (&next, wanted) {
                        // Deletes may hide nothing any more. That is looked at without these locks.
                        drop((inner, catalog));
                        match self.checkpointer.note_needless_deletes(wanted.at_any_cost) {
                            Err(error) => self.store.context.fail(error),
                            Ok(true) => continue,
                            Ok(false) => {}
                        }
                        let mut inner = compactions.inner.lock();
                        if inner.changes != changes {
                            continue;
                        }
                        inner.record_nothing_to_gain(wanted);
                        drop(inner);
                        self.store.wake_waiting();
                        continue;
                    }
                }
            // 3. The policy's choice, or else left-over inputs.
            } else {
                let mut load = self.load(&mut inner);
                let traffic = self.traffic(&mut inner);
                load.order_bytes_max = traffic.bytes_allowed();
                let picked = self.pick(&inner, catalog.state(), load);
                let plan = picked.or_else(|| self.plan_of_left_over(&mut inner, catalog.state()));
                // Would there be something to do in a store at rest? Then look whether it has become one.
                if plan.is_none() && self.store.context.options.compaction.policy == CompactionPolicy::GarbageFirst {
                    let at_rest = Load { is_quiet: true, is_at_rest: true, order_bytes_max: f64::INFINITY, ..load };
                    let waits_for_quiet = !load.is_at_rest && self.pick(&inner, catalog.state(), at_rest).is_some();
                    let waits_for_order = load.order_bytes_max < f64::INFINITY && self.state.notes.sought().len() > 1;
                    let order_in = waits_for_order.then(|| look_again_in(&traffic));
                    quiet_in = order_in.or(waits_for_quiet.then_some(QUIET));
                }
                next = plan.map(|plan| (plan, CompactionKind::Picked));
            }
            if let Some((plan, reason)) = next {
                inner.busy.extend(&plan.inputs);
                inner.running += 1;
                if plan.reason == CompactionReason::Order {
                    let rewritten_bytes = self.needed_bytes_of(&plan.inputs, catalog.state());
                    inner.order.begun(rewritten_bytes);
                }
                // The space is looked at without locks, because that asks the file system. Too little: begin nothing
                // but compactions for space, for a while.
                drop((inner, catalog));
                if matches!(reason, CompactionKind::Picked) && !self.planner.seems_to_have_space_for(&plan) {
                    compactions.inner.lock().pause_for_space_of(&plan);
                    self.store.wake_waiting();
                    continue;
                }
                self.pace.set();
                return NextCompaction::Begun(plan, reason);
            }
            // Writers are told that nothing is done here.
            drop((inner, catalog));
            self.pace.set();
            return NextCompaction::None { look_again_in: pause.or(quiet_in) };
        }
    }

    /// How the store is used.
    fn load(&self, inner: &mut QueueState) -> Load {
        let (sequence, now) = (self.store.writes.publication.published(), Instant::now());
        let (seen, since) = *inner.written_until.get_or_insert((sequence, now));
        if seen != sequence {
            inner.written_until = Some((sequence, now));
        }
        Load {
            garbage_per_rewritten: self
                .store
                .writes
                .pacing
                .garbage_per_rewritten(self.store.context.env.monotonic_ns()),
            is_flush_queued: self.store.writes.view.load().memtables.len() > 1,
            is_quiet: seen == sequence && now - since >= QUIET,
            is_at_rest: seen == sequence && now - since >= REST,
            order_bytes_max: 0.0,
        }
    }

    /// What writers and ranges do.
    pub(crate) fn traffic(&self, inner: &mut QueueState) -> Traffic {
        inner.order.look(Counted {
            now: Instant::now(),
            put_bytes: self.store.context.counted.user_bytes_put.load(Ordering::Relaxed),
            seeks: self.state.notes.seeks.fingerprint(),
            flush_rate: self.store.writes.pacing.flush_rate(),
            is_slowed_for_flushes: self.store.writes.pacing.is_limited_by(StallCause::Pace),
            are_ranges_cold: self.store.tables.are_cold.load(Ordering::Relaxed),
            processors: processors(),
        })
    }

    /// The needed part of these files, in bytes.
    fn needed_bytes_of(&self, numbers: &[u32], state: &StoreState) -> f64 {
        let droppable_through = self.state.checkpoints.deletes_droppable_through();
        let files = numbers.iter().filter_map(|number| state.files.get(number));
        files.map(|file| file.length_bytes as f64 * needed_part(file, droppable_through)).sum()
    }

    /// The policy's choice.
    /// LOCKS: catalog (held), compactions (held), compaction candidates
    pub(crate) fn pick(&self, inner: &QueueState, state: &StoreState, load: Load) -> Option<Plan> {
        let is_free = |number: u32| !inner.busy.contains(&number) && !inner.unfit.contains(&number);
        let deletes_droppable_through = self.state.checkpoints.deletes_droppable_through();
        self.state.notes.refresh(state);
        let choice = Choice {
            options: &self.store.context.options.compaction,
            state,
            order: &self.store.context.options.comparator,
            notes: &self.state.notes,
            is_free: &is_free,
            running: &inner.busy,
            deletes_droppable_through,
            memtable_bytes: self.store.context.options.memtable_bytes,
            load,
            coming_bytes: self.pace.coming_bytes(),
        };
        match choice.options.policy {
            CompactionPolicy::GarbageFirst => garbage_policy::pick(&choice),
            _ => self.state.paper.as_ref()?.pick(&choice),
        }
    }

    /// Files that compactions have left half done. Their garbage may be too little for the policy ever to choose them.
    /// LOCKS: catalog (held), compactions (held)
    pub(crate) fn plan_of_left_over(&self, inner: &mut QueueState, state: &StoreState) -> Option<Plan> {
        let QueueState { left_over, busy, unfit, .. } = inner;
        left_over.retain(|number| state.files.contains_key(number));
        if self.store.context.options.compaction.policy == CompactionPolicy::Manual {
            return None;
        }
        let droppable_through = self.state.checkpoints.deletes_droppable_through();
        let has_garbage = |number: &&u32| garbage(&state.files[*number], droppable_through) > 0;
        let is_free = |number: &&u32| !busy.contains(*number) && !unfit.contains(*number);
        let inputs: Vec<u32> = left_over
            .iter()
            .filter(|number| is_free(number) && has_garbage(number))
            .take(self.store.context.options.compaction.files_merged_max)
            .copied()
            .collect();
        (!inputs.is_empty()).then_some(Plan { inputs, reason: CompactionReason::MostGarbage })
    }
}
