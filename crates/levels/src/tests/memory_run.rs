//! [`MemoryRun`]: a run that is a list in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use slmdb_engine::read::merge::Source;
use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;
use slmdb_table::{EntryKind, Slice};

use crate::{AddError, Approximation, EntrySource, Found, Run, RunCursor, RunOutput, RunRecord};

/// A version of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) sequence: u64,
    /// `None`: a delete.
    pub(super) value: Option<Vec<u8>>,
}

impl Entry {
    fn kind(&self) -> EntryKind {
        if self.value.is_some() { EntryKind::Put } else { EntryKind::Delete }
    }

    fn bytes(&self) -> u64 {
        (self.key.len() + self.value.as_ref().map_or(0, Vec::len)) as u64
    }
}

pub(super) struct MemoryRun {
    number: u32,
    record: RunRecord,
    order: KeyOrder,
    entries: Vec<Entry>,
    /// How many cursors are open on it.
    open: Arc<AtomicUsize>,
    is_file: bool,
}

impl MemoryRun {
    /// A run with these entries, in any order.
    pub(super) fn new(number: u32, order: &KeyOrder, mut entries: Vec<Entry>) -> MemoryRun {
        entries.sort_by(|left, right| {
            order.compare(&left.key, &right.key).then_with(|| right.sequence.cmp(&left.sequence))
        });
        let sequences = entries.iter().map(|entry| entry.sequence);
        let record = RunRecord {
            entries: entries.len() as u64,
            deletes: entries.iter().filter(|entry| entry.value.is_none()).count() as u64,
            bytes: entries.iter().map(Entry::bytes).sum(),
            smallest_key: entries[0].key.as_slice().into(),
            largest_key: entries[entries.len() - 1].key.as_slice().into(),
            lowest_sequence: sequences.clone().min().unwrap(),
            highest_sequence: sequences.max().unwrap(),
            created_unix_ns: 7,
        };
        MemoryRun { number, record, order: order.clone(), entries, open: Arc::default(), is_file: true }
    }

    /// A run of which nothing is read.
    pub(super) fn bare(number: u32, record: RunRecord) -> MemoryRun {
        MemoryRun {
            number,
            record,
            order: KeyOrder::Bytewise,
            entries: Vec::new(),
            open: Arc::default(),
            is_file: true,
        }
    }

    pub(super) fn into_source(self) -> MemorySource {
        MemorySource::new(self.entries)
    }

    pub(super) fn not_a_file(self) -> MemoryRun {
        MemoryRun { is_file: false, ..self }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn open_cursors(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    fn position(&self, key: &[u8]) -> usize {
        self.entries.partition_point(|entry| self.order.compare(&entry.key, key).is_lt())
    }
}

impl Run for MemoryRun {
    type Cursor = MemoryCursor;
    type Source = MemorySource;

    fn number(&self) -> u32 {
        self.number
    }

    fn record(&self) -> &RunRecord {
        &self.record
    }

    fn is_file(&self) -> bool {
        self.is_file
    }

    fn get(&self, key: &[u8], sequence_max: u64) -> Result<Option<Found>> {
        let versions = self.entries[self.position(key)..].iter().take_while(|entry| entry.key == key);
        let found = versions.into_iter().find(|entry| entry.sequence <= sequence_max);
        Ok(found.map(|entry| Found {
            kind: entry.kind(),
            sequence: entry.sequence,
            value: slice_of(entry.value.as_deref().unwrap_or_default()),
        }))
    }

    fn cursor(self: &Arc<Self>) -> Result<MemoryCursor> {
        self.open.fetch_add(1, Ordering::SeqCst);
        Ok(MemoryCursor { run: self.clone(), position: None })
    }

    fn source(self: &Arc<Self>, _: usize) -> Result<MemorySource> {
        Ok(MemorySource::new(self.entries.clone()))
    }

    fn before(&self, key: &[u8]) -> Result<Approximation> {
        let entries = self.position(key) as u64;
        Ok(Approximation { entries, bytes: self.record.bytes * entries / self.record.entries.max(1) })
    }
}

fn slice_of(bytes: &[u8]) -> Slice {
    Slice::of(bytes.into(), 0..bytes.len())
}

pub(super) struct MemoryCursor {
    run: Arc<MemoryRun>,
    position: Option<usize>,
}

impl MemoryCursor {
    fn entry(&self) -> &Entry {
        &self.run.entries[self.position.unwrap()]
    }

    fn go(&mut self, position: Option<usize>) -> Result<()> {
        self.position = position.filter(|&position| position < self.run.entries.len());
        Ok(())
    }
}

impl Drop for MemoryCursor {
    fn drop(&mut self) {
        self.run.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl RunCursor for MemoryCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.go(Some(self.run.position(key)))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.go(self.run.position(key).checked_sub(1))
    }
    fn seek_first(&mut self) -> Result<()> {
        self.go(Some(0))
    }
    fn seek_last(&mut self) -> Result<()> {
        self.go(self.run.entries.len().checked_sub(1))
    }
    fn next(&mut self) -> Result<()> {
        self.go(Some(self.position.unwrap() + 1))
    }
    fn prev(&mut self) -> Result<()> {
        self.go(self.position.unwrap().checked_sub(1))
    }
    fn valid(&self) -> bool {
        self.position.is_some()
    }
    fn key(&self) -> &[u8] {
        &self.entry().key
    }
    fn sequence(&self) -> u64 {
        self.entry().sequence
    }
    fn kind(&self) -> EntryKind {
        self.entry().kind()
    }
    fn value_ref(&mut self) -> Result<&[u8]> {
        Ok(self.entry().value.as_deref().unwrap_or_default())
    }
    fn value(&mut self) -> Result<Slice> {
        Ok(slice_of(self.entry().value.as_deref().unwrap_or_default()))
    }
}

pub(super) struct MemorySource {
    pub(super) entries: Vec<Entry>,
    pub(super) passed: usize,
    /// The value at this position can't be read.
    pub(super) unreadable: Option<usize>,
}

impl MemorySource {
    pub(super) fn new(entries: Vec<Entry>) -> MemorySource {
        MemorySource { entries, passed: 0, unreadable: None }
    }

    fn entry(&self) -> Option<&Entry> {
        self.entries.get(self.passed.checked_sub(1)?)
    }
}

impl Source for MemorySource {
    fn advance(&mut self) -> Result<bool> {
        self.passed += 1;
        Ok(self.entry().is_some())
    }
    fn key(&self) -> &[u8] {
        self.entry().map_or(&[], |entry| &entry.key)
    }
    fn sequence(&self) -> u64 {
        self.entry().map_or(0, |entry| entry.sequence)
    }
}

impl EntrySource for MemorySource {
    fn kind(&self) -> EntryKind {
        self.entry().map_or(EntryKind::Delete, Entry::kind)
    }
    fn value_bytes(&self) -> u64 {
        self.entry().and_then(|entry| entry.value.as_ref()).map_or(0, |value| value.len() as u64)
    }
    fn value(&mut self) -> Result<&[u8]> {
        if self.unreadable == Some(self.passed - 1) {
            return Err(Error::corruption("memory", 0, "unreadable"));
        }
        Ok(self.entry().and_then(|entry| entry.value.as_deref()).unwrap_or_default())
    }
}

/// Outputs in memory.
#[derive(Default)]
pub(super) struct MemoryOutput {
    pub(super) done: Vec<Vec<Entry>>,
    pub(super) filling: Vec<Entry>,
    /// So many entries can be written.
    pub(super) room: Option<usize>,
    /// Told when it is given up.
    pub(super) abandoned: Option<Arc<AtomicUsize>>,
}

impl<S: EntrySource> RunOutput<S> for MemoryOutput {
    type Run = Vec<Entry>;
    type Error = &'static str;

    fn add(&mut self, source: &mut S) -> Result<(), AddError<&'static str>> {
        if self.room == Some(0) {
            return Err(AddError::Output("full"));
        }
        self.room = self.room.map(|room| room - 1);
        let (key, sequence, kind) = (source.key().to_vec(), source.sequence(), source.kind());
        let value = match kind {
            EntryKind::Put => Some(source.value().map_err(AddError::Source)?.to_vec()),
            EntryKind::Delete => None,
        };
        self.filling.push(Entry { key, sequence, value });
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.filling.iter().map(Entry::bytes).sum()
    }

    fn cut(&mut self) -> Result<(), &'static str> {
        self.done.extend(Some(std::mem::take(&mut self.filling)).filter(|filled| !filled.is_empty()));
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Vec<Entry>>, &'static str> {
        RunOutput::<S>::cut(&mut self)?;
        Ok(self.done)
    }

    fn abandon(self) {
        self.abandoned.iter().for_each(|count| _ = count.fetch_add(1, Ordering::SeqCst));
    }
}
