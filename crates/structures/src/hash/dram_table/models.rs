//! The table in DRAM under loom: its one writer against a reader.

use slmdb_sync::model::{check, thread};

use super::super::slot::SlotPlace;
use super::*;

/// The key of this number. The homes of all are 0, in order.
fn identity(number: u64) -> Identity {
    Identity::new(0, number, 0)
}

/// A slot whose place says the same in all three numbers.
fn slot(number: u64, place: u32) -> Slot {
    Slot::new(&identity(number), SlotPlace { file: place, offset: place, length_bytes: place }, false).unwrap()
}

/// A table of so many homes and positions behind them, which has these keys.
fn writer(homes: u64, tail: u64, numbers: &[u64]) -> DramWriter {
    let mut writer = DramWriter::with_words(Words::new(homes, tail, [].into_iter()), 95);
    numbers.iter().for_each(|&number| assert_eq!(writer.insert(slot(number, 1)), None));
    writer
}

/// While one slot is put into a table, a reader sees each key as it was before, or as it is after, and the later, if it has seen
/// that once.
fn check_insertion(
    name: &str,
    (homes, tail): (u64, u64),
    preemptions: usize,
    present: &'static [u64],
    inserted: u64,
    read: &'static [u64],
) {
    check(name, preemptions, move || {
        let mut writer = writer(homes, tail, present);
        let table = Arc::clone(writer.table());
        let reader = thread::spawn(move || {
            let mut is_after = false;
            for &number in read {
                let before = present.contains(&number).then(|| slot(number, 1));
                let after = if number == inserted { Some(slot(number, 2)) } else { before };
                let found = table.get(&identity(number));
                assert!(found == after || (found == before && !is_after), "{number}: {found:?}");
                is_after |= found != before;
            }
        });
        let replaced = writer.insert(slot(inserted, 2));
        assert_eq!(replaced, present.contains(&inserted).then(|| slot(inserted, 1)));
        reader.join().unwrap();
        assert_eq!(writer.table().get(&identity(inserted)), Some(slot(inserted, 2)));
    });
}

#[test]
fn loom_slots_that_are_moved_are_found() {
    check_insertion("an insertion before a slot", (1, 2), 2, &[2], 1, &[2]);
    check_insertion("an insertion before two slots", (2, 2), 1, &[2, 3], 1, &[3]);
    check_insertion("an insertion that is looked for", (2, 1), 2, &[2], 1, &[1]);
    check_insertion("an insertion that is looked for twice", (2, 1), 1, &[2], 1, &[1, 1]);
}

#[test]
fn loom_a_slot_is_replaced_as_a_whole() {
    check_insertion("a replacement", (1, 1), 2, &[1], 1, &[1]);
    check_insertion("a replacement that is looked for twice", (1, 1), 1, &[1], 1, &[1, 1]);
}

#[test]
fn loom_nothing_is_missed_while_a_table_grows() {
    check_insertion("more homes", (1, 1), 1, &[2], 1, &[2]);
}
