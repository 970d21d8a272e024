use slmdb_table::Place;

use super::*;
use crate::files::location::Location;

type Snapshots = super::Snapshots<Location>;

fn at(sequence: u64) -> Location {
    in_file(1, sequence)
}

fn in_file(file: u32, sequence: u64) -> Location {
    Location { file, place: Place { offset: 0, length: 10 }, sequence }
}

fn none() -> Snapshots {
    Snapshots::new(KeyOrder::Bytewise)
}

fn cursor(snapshots: &Snapshots, moment: u64) {
    assert_eq!(snapshots.register(SnapshotKind::Cursor, &|| moment), moment);
}

fn records(snapshots: &Snapshots) -> u64 {
    snapshots.kept().records
}

fn all(snapshots: &Snapshots, moment: u64) -> Vec<(Arc<[u8]>, Location)> {
    snapshots.replaced_in((Bound::Unbounded, Bound::Unbounded), moment)
}

#[test]
fn a_replaced_record_is_seen_until_its_replacement() {
    let snapshots = none();
    cursor(&snapshots, 10);
    cursor(&snapshots, 30);
    snapshots.note_replaced(b"k", at(5), 20);
    snapshots.note_replaced(b"k", at(20), 40);
    for (moment, seen) in [(10, Some(5)), (30, Some(20)), (19, Some(5)), (20, Some(20)), (40, None), (4, None)] {
        let seen = seen.map(at);
        assert_eq!(snapshots.replaced(b"k", moment), seen, "{moment}");
        assert_eq!(all(&snapshots, moment), seen.map(|seen| (b"k".as_slice().into(), seen)).as_slice(), "{moment}");
    }
    assert_eq!((snapshots.replaced(b"j", 10), snapshots.replaced(b"kk", 10)), (None, None));
    assert_eq!(snapshots.release(10, SnapshotKind::Cursor), []);
    assert_eq!(records(&snapshots), 1);
    assert_eq!(snapshots.release(30, SnapshotKind::Cursor), [1]);
    assert_eq!(snapshots.kept(), SnapshotStats { records: 0, bytes: 0, cursors: 0, snapshots: 0 });
}

#[test]
fn what_nobody_sees_is_not_kept() {
    let snapshots = none();
    snapshots.note_replaced(b"k", at(5), 20);
    cursor(&snapshots, 25);
    snapshots.note_replaced(b"k", at(5), 20);
    snapshots.note_replaced(b"k", at(26), 30);
    assert_eq!(records(&snapshots), 0);
    // The wrong way round: nothing was ever visible from 30 until 20.
    snapshots.note_replaced(b"k", at(30), 20);
    assert_eq!(records(&snapshots), 0);
}

#[test]
fn what_short_cursors_saw_is_forgotten_beside_an_older_one() {
    let snapshots = none();
    cursor(&snapshots, 1);
    snapshots.note_replaced(b"k", at(1), 5);
    for moment in (10..10_000).step_by(10) {
        cursor(&snapshots, moment);
        snapshots.note_replaced(b"k", in_file(2, moment - 5), moment + 5);
        assert_eq!(snapshots.replaced(b"k", moment), Some(in_file(2, moment - 5)));
        assert_eq!((records(&snapshots), snapshots.pins(1), snapshots.pins(2)), (2, true, true));
        assert_eq!(snapshots.release(moment, SnapshotKind::Cursor), [2]);
        assert_eq!((records(&snapshots), snapshots.pins(1), snapshots.pins(2)), (1, true, false));
        assert_eq!(snapshots.replaced(b"k", 1), Some(at(1)));
    }
    assert_eq!(snapshots.release(1, SnapshotKind::Cursor), [1]);
    assert_eq!(records(&snapshots), 0);
}

/// Whatever is released in whatever order, kept is what somebody sees, and pinned the files of that.
#[test]
fn kept_is_what_somebody_sees_and_nothing_else() {
    let mut state = 1_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..20 {
        let snapshots = none();
        let mut now = 1;
        let mut held: Vec<(u64, SnapshotKind)> = Vec::new();
        // Key, versions.
        let mut noted: Vec<(u8, Location, u64)> = Vec::new();
        let mut newest = [0_u64; 7];
        for step in 0..600 {
            now += 1 + random(3);
            match random(4) {
                0 => {
                    let holder = [SnapshotKind::Cursor, SnapshotKind::Snapshot][random(2) as usize];
                    // A new moment, or, as a cursor of a snapshot, one there is.
                    let again = held.get(random(1 + held.len() as u64) as usize).map(|&(moment, _)| moment);
                    let moment = again.filter(|_| holder == SnapshotKind::Cursor).unwrap_or(now);
                    held.push((snapshots.register(holder, &|| moment), holder));
                }
                1 if !held.is_empty() => {
                    let pinned =
                        |snapshots: &Snapshots| (0..50).filter(|&file| snapshots.pins(file)).collect::<Vec<_>>();
                    let before = pinned(&snapshots);
                    let (moment, holder) = held.swap_remove(random(held.len() as u64) as usize);
                    let mut unpinned = snapshots.release(moment, holder);
                    unpinned.sort_unstable();
                    let after = pinned(&snapshots);
                    let gone: Vec<_> = before.into_iter().filter(|file| !after.contains(file)).collect();
                    assert_eq!(unpinned, gone, "step {step}");
                }
                _ => {
                    let key = random(7) as u8;
                    let old = in_file((step / 20) as u32, newest[usize::from(key)]);
                    if old.sequence > 0 {
                        snapshots.note_replaced(&[key], old, now);
                        noted.push((key, old, now));
                    }
                    newest[usize::from(key)] = now;
                }
            }
            let is_seen = |&(_, old, until): &(u8, Location, u64)| {
                held.iter().any(|&(moment, _)| (old.sequence..until).contains(&moment))
            };
            noted.retain(is_seen);
            let kept = snapshots.kept();
            assert_eq!(kept.records, noted.len() as u64, "step {step}");
            assert_eq!(kept.cursors + kept.snapshots, held.len() as u64);
            assert_eq!(kept.bytes > 0, kept.records > 0);
            for &(key, old, until) in &noted {
                assert!(snapshots.pins(old.file));
                assert_eq!(snapshots.replaced(&[key], old.sequence), Some(old));
                assert_eq!(snapshots.replaced(&[key], until - 1), Some(old));
            }
        }
    }
}

#[test]
fn odd_ranges_are_empty_and_do_not_panic() {
    let snapshots = none();
    cursor(&snapshots, 10);
    snapshots.note_replaced(b"k", at(5), 20);
    let (k, z) = (b"k".as_slice(), b"z".as_slice());
    for range in [(Bound::Excluded(k), Bound::Excluded(k)), (Bound::Included(z), Bound::Included(k))] {
        assert_eq!(snapshots.replaced_in(range, 10), []);
    }
    assert_eq!(snapshots.replaced_in((Bound::Included(k), Bound::Included(k)), 10).len(), 1);
}
