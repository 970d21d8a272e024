//! A log under an index that is no MemTable: a hash table.

use std::collections::HashMap;
use std::path::Path;

use slmdb_pmem::{Arena, Dram};
use slmdb_structures::EntryKind;
use slmdb_structures::log::{ExpectedSequence, Log, Payload, RecordForm, Stop, read};

const UUID: [u8; 16] = *b"a store of tests";

/// The newest version of each key: its sequence number, and its value unless it is a delete.
type Index = HashMap<Vec<u8>, (u64, Option<Vec<u8>>)>;

fn arena(bytes: Vec<u8>) -> Arena<Dram> {
    Arena::from_bytes(Dram, Path::new("an arena of tests"), bytes)
}

fn index(index: &mut Index, kind: Option<EntryKind>, key: &[u8], sequence: u64, value: &[u8]) {
    if let Some(kind) = kind {
        index.insert(key.to_vec(), (sequence, (kind == EntryKind::Put).then(|| value.to_vec())));
    }
}

/// Read back, or copied into another arena and read back, it gives what was written.
#[test]
fn a_hash_table_is_made_of_a_log_as_well() {
    for (form, other_form) in [(RecordForm::Plain, RecordForm::WithSlots), (RecordForm::WithSlots, RecordForm::Plain)] {
        let log = Log::create(arena(vec![0xee; 8192]), 5, UUID, form);
        let (mut written, mut sequence) = (Index::new(), 1);
        for number in 0..40_u8 {
            let mut payload = Payload::new();
            payload.put(&[number % 7], &vec![number; number.into()]).unwrap();
            payload.delete(&[number % 11]).unwrap();
            let payload = if number % 13 == 5 { payload.void() } else { payload };
            let place = log.try_reserve(payload.len_bytes(), payload.count()).unwrap();
            let record = log.write(place, &payload, sequence, sequence - 1);
            assert_eq!(record.payload, payload.as_bytes());
            for (entry, sequence) in payload.iter().zip(sequence..) {
                index(&mut written, entry.kind.of_key(), entry.key, sequence, entry.value);
            }
            log.persist(&record);
            sequence += 2;
        }
        assert_eq!((log.first_sequence(), log.last_sequence()), (Some(1), Some(80)));
        log.verify(80).unwrap();

        // SAFETY: nobody writes to it any more.
        let bytes = unsafe { log.arena().bytes(0, log.capacity_bytes()) }.unwrap().to_vec();
        let (mut found, mut next) = (Index::new(), 1);
        let expected = ExpectedSequence::Exactly(1);
        let (recovered, reading) = read(arena(bytes), 5, UUID, expected, None, |logged| {
            assert_eq!((logged.sequence, logged.slot.is_some()), (next, form == RecordForm::WithSlots));
            next += 1;
            index(&mut found, logged.entry.kind.of_key(), logged.entry.key, logged.sequence, logged.entry.value);
        })
        .unwrap();
        assert_eq!((reading.last_sequence, reading.expected_next), (Some(80), ExpectedSequence::Exactly(81)));
        assert!(matches!(reading.stopped, Stop::Broken { offset } if offset == log.used_bytes()));
        assert!(found == written && recovered.is_recovered() && recovered.try_reserve(8, 1).is_none());
        assert_eq!(recovered.logged_entries().count(), 80);

        let mut copied = Index::new();
        let copied_bytes = other_form.first_record_offset() + recovered.copied_bytes(other_form);
        let copy = Log::copied_from(arena(vec![0; 8192]), 6, UUID, other_form, &[&recovered], |logged| {
            index(&mut copied, logged.entry.kind.of_key(), logged.entry.key, logged.sequence, logged.entry.value);
        })
        .unwrap();
        assert!(copied == written && copy.try_reserve(8, 1).is_some_and(|place| place.offset() == copied_bytes));
    }
}
