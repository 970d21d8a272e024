//! The tree for plain memory, through its public interface.

mod estimate;
mod image;
mod lack;
mod model;
mod stress;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use slmdb_order::Direction;
use slmdb_structures::memory_tree::{Found, MemoryTree, Place, RangeRead, Settings, SystemMemory};
use slmdb_sync::epoch::{self, Guard};

/// What an index should have.
type Model = BTreeMap<Vec<u8>, Found>;

/// Nodes so small that a few keys walk all paths.
fn tiny() -> Settings {
    Settings {
        leaf_keys: 4,
        leaf_bytes: 400,
        inner_children: 4,
        inner_bytes: 300,
        garbage_bytes_min: 1 << 20,
        readers_patience: Duration::from_millis(50),
    }
}

fn tree(settings: Settings) -> MemoryTree {
    let tree = MemoryTree::new(Arc::new(SystemMemory), settings).unwrap();
    // File number n has slot n - 1.
    (1..=4).for_each(|file| assert_eq!(tree.files().slot(file).unwrap(), file - 1));
    tree
}

/// The place of this number: some are wide.
fn place(number: u64) -> Place {
    let is_wide = number.is_multiple_of(5);
    let offset = (number as u32 & 0x3fff_ffff) | if is_wide { 3 << 30 } else { 0 };
    let length_bytes = (number >> 30) as u32 % 65_536 + if number.is_multiple_of(7) { 65_536 } else { 0 };
    Place { slot: number as u32 % 4, offset, length_bytes }
}

fn found(number: u64, sequence: u64) -> Found {
    Found { place: place(number), sequence }
}

/// All of an index in one direction, read in batches of at least so many.
fn read_all(tree: &MemoryTree, direction: Direction, at_least: usize) -> Vec<(Vec<u8>, Found)> {
    let (mut all, mut read, mut from) = (Vec::new(), RangeRead::default(), Bound::Unbounded);
    loop {
        let near = from.as_ref().map(Vec::as_slice);
        tree.read(near, direction, at_least, &epoch::pin(), &mut read);
        all.extend(read.iter().map(|(key, found)| (key.to_vec(), found)));
        match read.next() {
            None => return all,
            Some(next) => {
                assert!(read.len() >= at_least.max(1));
                from = next.map(<[u8]>::to_vec);
            }
        }
    }
}

/// Compares an index with what it should have.
fn check(tree: &MemoryTree, model: &Model, guard: &Guard) {
    assert_eq!(tree.verify(guard).len(), 0, "{:?}", tree.verify(guard));
    assert_eq!(tree.count(guard), model.len() as u64);
    let all: Vec<(Vec<u8>, Found)> = model.iter().map(|(key, found)| (key.clone(), *found)).collect();
    assert_eq!(read_all(tree, Direction::Forward, 7), all);
    let backward: Vec<_> = all.into_iter().rev().collect();
    assert_eq!(read_all(tree, Direction::Backward, 0), backward);
}
