//! Step 1: every table file is read from end to end. What can be read of a damaged one goes into a new one.

use slmdb_env::{Error, Result};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, FileRecord, NUMBERS_MAX};
use slmdb_table::{Block, EntryKind, Place, Slice, TableBuilder, TableForm, TableOptions, TableReader};

use super::Repair;
use crate::files::file_names as names;
use crate::files::file_records::file_record;
use crate::files::table_cache::missing;
use crate::{Loss, RepairProgress};

/// A damaged table file of which something can be read.
pub struct DamagedTable {
    /// Its number.
    pub number: u32,
    /// What the MANIFEST says of it.
    pub record: FileRecord,
    /// Reads it.
    pub reader: TableReader,
}

impl Repair {
    /// Step 1: the check. Damaged files of which something can be read come to [`Repair::damaged_tables`].
    pub fn check_tables(&mut self, progress: &mut dyn FnMut(RepairProgress)) -> Result<()> {
        let files = self.state.files.clone();
        let total_bytes = files.values().map(|file| file.length_bytes).sum();
        let mut before_bytes = 0;
        for (number, record) in files {
            let path = names::table(&self.directory, number);
            match self.open_table(number) {
                Ok(reader) => {
                    let tell = &mut |done_bytes| {
                        progress(RepairProgress { done_bytes: before_bytes + done_bytes, total_bytes });
                    };
                    let mut damage = reader.verify(tell);
                    if reader.length_bytes() != record.length_bytes {
                        damage.push(Error::corruption(&path, 0, "a table file is not as long as the MANIFEST says"));
                    }
                    if !damage.is_empty() {
                        self.report.damage.append(&mut damage);
                        self.was_flushed_through(reader.properties().highest_sequence);
                        self.damaged_tables.push(DamagedTable { number, record: record.clone(), reader });
                    } else {
                        self.correct(number, &record, &reader);
                    }
                }
                Err(error @ Error::Corruption { .. }) => {
                    self.report.damage.push(error);
                    self.lose(number, &record)?;
                }
                Err(error) => return Err(error),
            }
            self.report.table_files_checked += 1;
            before_bytes += record.length_bytes;
            progress(RepairProgress { done_bytes: before_bytes, total_bytes });
        }
        progress(RepairProgress { done_bytes: total_bytes, total_bytes });
        Ok(())
    }

    /// Corrects the MANIFEST's record of a sound table file by the file itself; live entries are counted at the end.
    /// What is in a table file was flushed, with all that is older.
    fn correct(&mut self, number: u32, record: &FileRecord, reader: &TableReader) {
        let own = file_record(reader.properties(), reader.length_bytes());
        let own = FileRecord { live_keys: record.live_keys.min(own.entries), level: record.level, ..own };
        let is_flushed = own.highest_sequence <= self.state.flushed_through;
        if own != *record || !is_flushed {
            let what = format!("what the MANIFEST says of table file {number} is not so");
            self.report.damage.push(Error::corruption(self.directory.join(MANIFEST_NAME), 0, what));
            self.was_flushed_through(own.highest_sequence);
            self.state.files.insert(number, own);
        }
    }

    /// Everything up to this sequence number was flushed: a table file has it. What is put later gets larger ones.
    fn was_flushed_through(&mut self, sequence: u64) {
        self.state.flushed_through = self.state.flushed_through.max(sequence);
        self.state.closed_at_sequence.take_if(|closed| *closed < sequence);
    }

    /// Gives up a file from which nothing can be read.
    pub fn lose(&mut self, number: u32, record: &FileRecord) -> Result<()> {
        self.report.losses.push(Loss::TableFile {
            number,
            entries: (self.entries_that_counted)(record),
            smallest_key: record.smallest_key.clone(),
            largest_key: record.largest_key.clone(),
            lowest_sequence: record.lowest_sequence,
            highest_sequence: record.highest_sequence,
        });
        self.give_up(number, record)
    }

    /// Removes a damaged table file from the store.
    fn give_up(&mut self, number: u32, record: &FileRecord) -> Result<()> {
        self.state.files.remove(&number);
        self.given_up.push((number, record.clone()));
        self.set_aside(names::table(&self.directory, number))
    }

    /// Step 1: copies what can be read of damaged files that have a list of their keys, each into a new one on the same
    /// level. `elsewhere` may know the value of a key that had this number.
    pub fn save_run_files(&mut self, elsewhere: &dyn Fn(&[u8], u64) -> Option<Slice>) -> Result<()> {
        let (run_files, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.damaged_tables).into_iter().partition(|table| !table.reader.is_searched_by_key());
        self.damaged_tables = others;
        run_files.iter().try_for_each(|table| self.save_entries(table, elsewhere))
    }

    fn save_entries(&mut self, table: &DamagedTable, elsewhere: &dyn Fn(&[u8], u64) -> Option<Slice>) -> Result<()> {
        let DamagedTable { number, record, reader } = table;
        let keys = match reader.key_section() {
            Ok(keys) if keys.entries().all(|entry| entry.is_ok()) => keys,
            _ => return self.lose(*number, record),
        };
        let (new, mut builder) = self.new_table(TableForm::default())?;
        let highest_sequence = reader.properties().highest_sequence;
        let mut block: Option<(Place, Option<Block>)> = None;
        let mut last_key: Option<Vec<u8>> = None;
        for entry in keys.entries() {
            let entry = entry?;
            if last_key.as_deref() == Some(entry.key) {
                // An older version: no reader asks for it any more.
                continue;
            }
            last_key = Some(entry.key.to_vec());
            if block.as_ref().is_none_or(|(place, _)| *place != entry.place) {
                block = Some((entry.place, reader.read_block(entry.place).ok()));
            }
            let found = match &block {
                Some((_, Some(block))) => block.get(entry.key).ok().flatten(),
                _ => None,
            };
            let is_put = entry.kind == EntryKind::Put;
            // Where the block has another number, the block is believed: there number and value have one checksum. The list
            // of keys might give a key a number that is newer than all that there is of it.
            let found = found.filter(|found| found.kind == entry.kind && found.sequence <= highest_sequence);
            let found = found.map(|found| (found.sequence, found.value));
            let of_elsewhere = || elsewhere(entry.key, entry.sequence).map(|value| (entry.sequence, value));
            match found.or_else(|| if is_put { of_elsewhere() } else { None }) {
                Some((sequence, value)) => builder.add(entry.key, sequence, entry.kind, &value)?,
                None => {
                    let sequence = entry.sequence.min(highest_sequence);
                    if is_put {
                        self.report.losses.push(Loss::Key { key: entry.key.to_vec(), sequence });
                    }
                    builder.add(entry.key, sequence, EntryKind::Delete, b"")?;
                }
            }
        }
        self.replace(*number, record, Some((new, builder)))
    }

    /// Gives up a damaged file for a new one on the same level. `None`: there was nothing left for a new one.
    pub fn replace(&mut self, number: u32, record: &FileRecord, new: Option<(u32, TableBuilder)>) -> Result<()> {
        if let Some((new, builder)) = new {
            self.add_table(new, builder, record.level)?;
            self.replacements.push(new);
        }
        self.give_up(number, record)
    }

    /// Opens a table file of the store.
    pub fn open_table(&self, number: u32) -> Result<TableReader> {
        let path = names::table(&self.directory, number);
        if !self.env().exists(&path)? {
            return Err(missing(&path));
        }
        let (uuid, order) = (self.state.files_uuid, self.options.comparator.clone());
        let reader = TableReader::open_in_order(self.env(), &path, number, uuid, order)?;
        // The MANIFEST could not go on counting.
        let highest = reader.properties().highest_sequence;
        if highest > NUMBERS_MAX {
            return Err(Error::corruption(&path, 0, format!("it has a sequence number as large as {highest}")));
        }
        Ok(reader)
    }

    /// A new table file, with the next free number.
    pub fn new_table(&mut self, form: TableForm) -> Result<(u32, TableBuilder)> {
        loop {
            let number = self.state.next_file_number;
            let path = names::table(&self.directory, number);
            self.state.next_file_number = number.checked_add(1).ok_or_else(|| Error::Unsupported {
                what: "a store has numbers for 4 billion table files".into(),
                file: Some(self.directory.join(MANIFEST_NAME)),
            })?;
            if self.env().exists(&path)? {
                // A file that an earlier repair or a flush has left.
                continue;
            }
            let (uuid, order) = (self.state.files_uuid, self.options.comparator.clone());
            let table = TableOptions { form, ..self.options.table() };
            return Ok((number, TableBuilder::new_in_order(self.env(), &path, number, uuid, table, order)?));
        }
    }

    /// Completes a table file, and adds it to the store.
    pub fn add_table(&mut self, number: u32, builder: TableBuilder, level: u8) -> Result<()> {
        let finished = builder.finish()?;
        self.env().sync_directory(&self.directory)?;
        let record = FileRecord { level, ..file_record(&finished.properties, finished.length_bytes) };
        self.state.files.insert(number, record);
        Ok(())
    }
}
