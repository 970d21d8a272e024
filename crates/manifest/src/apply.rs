//! When a state is plausible, and when an edit fits a state.
//!
//! The checks serve two ends. While the store runs they stop an engine that is about to write down something that
//! contradicts itself: the edit is refused and nothing is written. While a MANIFEST is read they catch what checksums
//! can't, a file put together wrongly: then the very same refusal is corruption. So the checks need to be such that no
//! correct engine ever meets them.

use std::collections::{BTreeMap, BTreeSet};

use crate::edit::Edit;
use crate::state::{FileRecord, StoreState};

/// Live counts as they will be, by file.
type NewLive = BTreeMap<u32, u64>;

/// No job, generation or sequence number gets this far: key records have 56 bits for sequence numbers.
pub const NUMBERS_MAX: u64 = 1 << 56;

/// No table file has so many entries, or bytes: places in it have 32 bits, and its last block ends soon after.
const OF_ONE_FILE_MAX: u64 = 1 << 40;

impl StoreState {
    /// Applies an edit, or says why it does not fit; then nothing is changed.
    pub fn apply(&mut self, edit: &Edit) -> Result<(), String> {
        let new_live = self.check_edit(edit)?;
        self.apply_checked(edit, &new_live);
        Ok(())
    }

    /// Whether the state makes sense by itself.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (number, file) in self.runs() {
            check_file(number, file, self.next_file_number)?;
        }
        self.lists.iter().try_for_each(|(&number, list)| check_list(number, list))?;
        if let Some(number) = self.lists.keys().find(|number| self.files.contains_key(number)) {
            return Err(format!("{number} is a file, and a list"));
        }
        if let Some(generation) = self.arenas.keys().find(|&&generation| generation >= self.next_generation) {
            return Err(format!("arena {generation} is beyond next_generation {}", self.next_generation));
        }
        if self.unfinished_repair.is_some() && self.medium.pool_uuid.is_some() {
            return Err("a pool, and an unfinished repair of it".to_string());
        }
        if self.next_file_number == 0 {
            return Err("next_file_number is 0".to_string());
        }
        check_bounds(self.last_job, Some(self.next_generation), Some(self.flushed_through))?;
        check_closing(self.closed_at_sequence, self.flushed_through)
    }

    /// Whether `edit` fits, and the live counts it leads to.
    pub(crate) fn check_edit(&self, edit: &Edit) -> Result<NewLive, String> {
        if edit.job != 0 && edit.job <= self.last_job {
            return Err(format!("job {} comes after job {}", edit.job, self.last_job));
        }
        check_bounds(edit.job, edit.next_generation, edit.flushed_through)?;
        never_back("next_file_number", self.next_file_number, edit.next_file_number)?;
        never_back("next_generation", self.next_generation, edit.next_generation)?;
        never_back("flushed_through", self.flushed_through, edit.flushed_through)?;
        check_closing(edit.closed_at_sequence, edit.flushed_through.unwrap_or(self.flushed_through))?;
        self.check_arenas(edit)?;
        let moved: Vec<u32> = edit.level_changes.iter().map(|(number, _)| *number).collect();
        check_there(|number| self.record(*number).is_some(), &moved, "goes to another level")?;
        let added = self.check_added(edit)?;
        let is_file = |number: &u32| self.files.contains_key(number);
        let is_list = |number: &u32| self.lists.contains_key(number);
        check_there(is_file, &edit.files_removed, "is removed")?;
        check_there(is_list, &edit.lists_removed, "is removed")?;
        self.new_live(edit, &added)
    }

    /// What [`StoreState::check_edit`] has found to fit.
    pub(crate) fn apply_checked(&mut self, edit: &Edit, new_live: &NewLive) {
        self.files.extend(edit.files_added.iter().cloned());
        self.lists.extend(edit.lists_added.iter().cloned());
        for (number, &live) in new_live {
            if let Some(file) = self.files.get_mut(number) {
                file.live_keys = live;
            }
        }
        for (number, level) in &edit.level_changes {
            let record = self.files.get_mut(number).or_else(|| self.lists.get_mut(number));
            if let Some(record) = record {
                record.level = *level;
            }
        }
        for number in &edit.files_removed {
            self.files.remove(number);
        }
        for number in &edit.lists_removed {
            self.lists.remove(number);
        }
        self.arenas.extend(edit.arenas_added.iter().copied());
        for generation in &edit.arenas_removed {
            self.arenas.remove(generation);
        }
        self.next_file_number = edit.next_file_number.unwrap_or(self.next_file_number);
        self.next_generation = edit.next_generation.unwrap_or(self.next_generation);
        self.flushed_through = edit.flushed_through.unwrap_or(self.flushed_through);
        self.last_job = self.last_job.max(edit.job);
        self.closed_at_sequence = edit.closed_at_sequence;
        self.lifetime = edit.lifetime.unwrap_or(self.lifetime);
        if let Some(medium) = &edit.medium {
            self.medium = medium.clone();
        }
        self.engine_section.extend(edit.engine_section.clone());
    }

    /// The files and lists that an edit adds.
    fn check_added<'e>(&self, edit: &'e Edit) -> Result<BTreeMap<u32, &'e FileRecord>, String> {
        let next_file_number = edit.next_file_number.unwrap_or(self.next_file_number);
        let mut added = BTreeMap::new();
        for (number, file) in edit.files_added.iter().chain(&edit.lists_added) {
            check_file(*number, file, next_file_number)?;
            if self.record(*number).is_some() || added.insert(*number, file).is_some() {
                return Err(format!("file {number} is added, but is there already"));
            }
        }
        edit.lists_added.iter().try_for_each(|(number, list)| check_list(*number, list))?;
        Ok(added)
    }

    fn new_live(&self, edit: &Edit, added: &BTreeMap<u32, &FileRecord>) -> Result<NewLive, String> {
        let mut changes: BTreeMap<u32, i64> = BTreeMap::new();
        for &(number, change) in &edit.live_changes {
            let sum = changes.entry(number).or_default();
            *sum = sum.checked_add(change).ok_or_else(|| format!("file {number}: the live changes overflow"))?;
        }
        let after = |(number, change): (u32, i64)| {
            let file = self.files.get(&number).or_else(|| added.get(&number).copied());
            let file = file.ok_or_else(|| format!("the live count of file {number} changes, but it is not there"))?;
            match file.live_keys.checked_add_signed(change) {
                Some(live) if live <= file.entries => Ok((number, live)),
                _ => Err(format!(
                    "file {number}: {} of {} entries live, changed by {change}",
                    file.live_keys, file.entries
                )),
            }
        };
        changes.into_iter().map(after).collect()
    }

    fn check_arenas(&self, edit: &Edit) -> Result<(), String> {
        let next_generation = edit.next_generation.unwrap_or(self.next_generation);
        let mut added = BTreeSet::new();
        for &(generation, arena) in &edit.arenas_added {
            if generation >= next_generation {
                return Err(format!("arena {generation} is beyond next_generation {next_generation}"));
            }
            if !added.insert(generation) {
                return Err(format!("arena {generation} is added twice"));
            }
            let Some(before) = self.arenas.get(&generation) else { continue };
            if before.length_bytes != arena.length_bytes {
                let (before, after) = (before.length_bytes, arena.length_bytes);
                return Err(format!("arena {generation} of {before} bytes is given {after} bytes"));
            }
            if arena.sealed_last_sequence.is_none() {
                return Err(format!("arena {generation} is added, but is there already"));
            }
        }
        let mut removed = BTreeSet::new();
        for &generation in &edit.arenas_removed {
            if !self.arenas.contains_key(&generation) || !removed.insert(generation) {
                return Err(format!("arena {generation} is removed, but is not there"));
            }
        }
        Ok(())
    }
}

/// Whether all of these are there, each named once. `what`: what happens to them.
fn check_there(is_there: impl Fn(&u32) -> bool, numbers: &[u32], what: &str) -> Result<(), String> {
    let mut named = BTreeSet::new();
    match numbers.iter().find(|number| !is_there(number) || !named.insert(**number)) {
        Some(number) => Err(format!("file {number} {what}, but is not there, or twice")),
        None => Ok(()),
    }
}

fn check_list(number: u32, list: &FileRecord) -> Result<(), String> {
    match list.live_keys {
        0 => Ok(()),
        live => Err(format!("list {number} has {live} live entries")),
    }
}

fn check_file(number: u32, file: &FileRecord, next_file_number: u32) -> Result<(), String> {
    if number == 0 {
        return Err("a file has number 0, which means none".to_string());
    }
    if number >= next_file_number {
        return Err(format!("file {number} is beyond next_file_number {next_file_number}"));
    }
    if file.live_keys > file.entries || file.deletes > file.entries {
        let FileRecord { entries, deletes, live_keys: live, .. } = file;
        return Err(format!("file {number} has {entries} entries, {deletes} of them deletes and {live} live"));
    }
    if file.entries.max(file.length_bytes) > OF_ONE_FILE_MAX {
        return Err(format!("file {number} has {} entries in {} bytes", file.entries, file.length_bytes));
    }
    if file.lowest_sequence > file.highest_sequence {
        let FileRecord { lowest_sequence, highest_sequence, .. } = file;
        return Err(format!("file {number} has sequence numbers from {lowest_sequence} to {highest_sequence}"));
    }
    Ok(())
}

/// Numbers that only count up and leave no room to go on counting were never reached by counting.
fn check_bounds(job: u64, next_generation: Option<u64>, flushed_through: Option<u64>) -> Result<(), String> {
    let largest = [job, next_generation.unwrap_or(0), flushed_through.unwrap_or(0)].into_iter().max().unwrap_or(0);
    if largest > NUMBERS_MAX { Err(format!("a number as large as {largest}")) } else { Ok(()) }
}

fn check_closing(closed_at_sequence: Option<u64>, flushed_through: u64) -> Result<(), String> {
    match closed_at_sequence {
        Some(closed) if closed < flushed_through => {
            Err(format!("closed at sequence number {closed}, but flushed through {flushed_through}"))
        }
        _ => Ok(()),
    }
}

fn never_back<T: PartialOrd + std::fmt::Display>(name: &str, before: T, after: Option<T>) -> Result<(), String> {
    match after {
        Some(after) if after < before => Err(format!("{name} goes back from {before} to {after}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
