//! Lists: against a model, through crashes, with damaged bytes, and byte for byte.

mod crash;
mod format;
mod hostile;
mod model;

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;

use slmdb_env::Result;
use slmdb_order::KeyOrder;
use slmdb_pmem::{Claim, Extent, ExtentKind, Medium, Pool, PoolOptions};
use slmdb_structures::EntryKind;
use slmdb_structures::list::{
    FinishedList, List, ListCursor, ListOptions, ListRecord, ListWriter, MAXIMUM_SEQUENCE, Persists, SegmentOptions,
    SegmentWriter,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: Vec<u8>,
    pub sequence: u64,
    pub kind: EntryKind,
    pub value: Vec<u8>,
}

/// An entry whose kind and value follow from its number.
pub fn entry(key: &[u8], sequence: u64) -> Entry {
    let kind = if sequence % 5 == 4 { EntryKind::Delete } else { EntryKind::Put };
    let value =
        if kind == EntryKind::Put { format!("{sequence}").repeat(sequence as usize % 7) } else { String::new() };
    Entry { key: key.to_vec(), sequence, kind, value: value.into_bytes() }
}

pub fn sort(entries: &mut [Entry], order: &KeyOrder) {
    entries.sort_by(|left, right| order.compare(&left.key, &right.key).then(right.sequence.cmp(&left.sequence)));
}

pub fn pool<M: Medium>(medium: M) -> Arc<Pool<M>> {
    let options = PoolOptions { initial_bytes: 0, growth_bytes: 64 << 10, maximum_bytes: 256 << 20, uuid: [7; 16] };
    Arc::new(Pool::anonymous(medium, &options).unwrap())
}

pub fn segment_options(segment_bytes: u64) -> SegmentOptions {
    SegmentOptions { segment_bytes, owner: 77, claim: Claim::Privileged }
}

pub fn list_options(order: &KeyOrder, filter_bits_per_key: u32) -> ListOptions {
    ListOptions { order: order.clone(), filter_bits_per_key, claim: Claim::Privileged, persists: Persists::Once }
}

/// Writes a list of copied entries.
pub fn write_one<M: Medium>(
    pool: &Arc<Pool<M>>,
    segments: &mut SegmentWriter<M>,
    number: u32,
    entries: &[Entry],
    options: ListOptions,
) -> FinishedList {
    let mut list = ListWriter::new(Arc::clone(pool), number, options);
    for Entry { key, sequence, kind, value } in entries {
        let place = segments.add(key, *sequence, *kind, value).unwrap();
        list.add(key, *sequence, *kind, place).unwrap();
    }
    let estimate = list.bytes();
    let finished = list.finish(123).unwrap();
    assert!(finished.record().extent.length_bytes >= estimate);
    finished
}

/// A complete list of copied entries.
pub fn complete_one<M: Medium>(
    pool: &Arc<Pool<M>>,
    number: u32,
    entries: &[Entry],
    options: ListOptions,
) -> Arc<List<M>> {
    let mut segments = SegmentWriter::new(Arc::clone(pool), segment_options(64 << 10));
    let order = options.order.clone();
    let list = write_one(pool, &mut segments, number, entries, options);
    segments.complete(slice::from_ref(&list)).unwrap();
    let opened = open(pool, list.record(), &order).unwrap();
    assert_eq!(opened.record(), list.record());
    opened
}

pub fn open<M: Medium>(pool: &Arc<Pool<M>>, record: &ListRecord, order: &KeyOrder) -> Result<Arc<List<M>>> {
    List::open(Arc::clone(pool), record.extent, record.number, order.clone()).map(Arc::new)
}

pub fn extents_of<M: Medium>(pool: &Pool<M>, kind: ExtentKind) -> Vec<Extent> {
    pool.extents().into_iter().filter(|extent| extent.kind == kind).collect()
}

pub fn current<M: Medium>(cursor: &ListCursor<M>) -> Result<Option<Entry>> {
    if !cursor.valid() {
        return Ok(None);
    }
    let value = cursor.value()?.to_vec();
    assert_eq!(cursor.value_bytes(), value.len() as u64);
    Ok(Some(Entry { key: cursor.key().to_vec(), sequence: cursor.sequence(), kind: cursor.kind(), value }))
}

/// That a list is whole and has this, which is in order.
pub fn check<M: Medium>(list: &Arc<List<M>>, model: &[Entry]) {
    let faults = list.verify();
    assert!(faults.is_empty(), "{faults:#?}");
    let order = list.order().clone();
    let record = list.record();
    assert_eq!(record.entries, model.len() as u64);
    assert_eq!(record.deletes, model.iter().filter(|entry| entry.kind == EntryKind::Delete).count() as u64);
    assert_eq!(*record.smallest_key, model[0].key);
    assert_eq!(*record.largest_key, model[model.len() - 1].key);
    assert_eq!(record.lowest_sequence, model.iter().map(|entry| entry.sequence).min().unwrap());
    assert_eq!(record.highest_sequence, model.iter().map(|entry| entry.sequence).max().unwrap());
    let mut cursor = ListCursor::new(Arc::clone(list));
    assert_eq!(current(&cursor).unwrap(), None);
    cursor.seek_first().unwrap();
    for entry in model {
        assert_eq!(current(&cursor).unwrap().as_ref(), Some(entry));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    cursor.seek_last().unwrap();
    for entry in model.iter().rev() {
        assert_eq!(current(&cursor).unwrap().as_ref(), Some(entry));
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
    let mut probes: BTreeSet<Vec<u8>> = BTreeSet::from([Vec::new(), vec![0xff; 30]]);
    for Entry { key, .. } in model {
        probes.insert(key.clone());
        probes.insert([key, &b"\0"[..]].concat());
        probes.insert(key[..key.len() / 2].to_vec());
        let mut other = key.clone();
        if let Some(last) = other.last_mut() {
            *last ^= 1;
            probes.insert(other);
        }
    }
    for key in &probes {
        let before = model.iter().filter(|entry| order.compare(&entry.key, key).is_lt()).count();
        assert_eq!(list.rank(key).unwrap(), before as u64, "{}", key.escape_ascii());
        cursor.seek(key).unwrap();
        assert_eq!(current(&cursor).unwrap().as_ref(), model.get(before), "{}", key.escape_ascii());
        cursor.seek_before(key).unwrap();
        assert_eq!(current(&cursor).unwrap().as_ref(), before.checked_sub(1).map(|at| &model[at]));
        let versions: Vec<&Entry> = model.iter().filter(|entry| entry.key == *key).collect();
        let moments = versions.iter().flat_map(|entry| [entry.sequence, entry.sequence.saturating_sub(1)]);
        for moment in moments.chain([0, MAXIMUM_SEQUENCE, u64::MAX]) {
            let found = list.get(key, moment).unwrap().map(|found| Entry {
                key: key.clone(),
                sequence: found.sequence,
                kind: found.kind,
                value: found.value.to_vec(),
            });
            let expected = versions.iter().find(|entry| entry.sequence <= moment).copied();
            assert_eq!(found.as_ref(), expected, "{} at {moment}", key.escape_ascii());
        }
    }
}
