//! [`ReplacedVersions`]: an ordered map in DRAM of versions that left an index, (key, sequence number) → version. Readers
//! of earlier moments use it. [`super::snapshots`] decides what goes in, and until when.
//!
//! A version is visible from its own sequence number until that of the version that replaced it. So at most one version
//! of a key is visible at a moment (INV-14). Each pins its table file: a file that has left the MANIFEST stays as long
//! as a version here lies in it (INV-19).
//!
//! What a version is, the engine says ([`IndexedVersion`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use slmdb_order::KeyOrder;

use super::ordered_key::OrderedKey;
use crate::files::location::Location;

/// What an engine's index says of a key.
pub trait IndexedVersion: Copy + std::fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The number of the table file that has it.
    fn file(&self) -> u32;
    /// Its sequence number.
    fn sequence(&self) -> u64;
}

impl IndexedVersion for Location {
    fn file(&self) -> u32 {
        self.file
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl IndexedVersion for slmdb_structures::hybrid_tree::Version {
    fn file(&self) -> u32 {
        self.file
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }
}

/// Memory per version beside its key's bytes: its entry in the map, whose nodes are two thirds full on average; the
/// key's reference counts; its mention in the charge of a moment.
const fn version_bytes<V>() -> usize {
    let in_map = size_of::<Name>() + size_of::<Version<V>>();
    let key_counts = 2 * size_of::<usize>();
    in_map + in_map / 2 + key_counts + 2 * size_of::<(Arc<[u8]>, u64)>()
}

/// See the module.
#[derive(Debug)]
pub struct ReplacedVersions<V> {
    /// The order of the store's keys.
    order: KeyOrder,
    versions: BTreeMap<Name, Version<V>>,
    /// How many versions lie in each table file.
    pins: HashMap<u32, u64>,
    bytes: usize,
}

/// In key order; versions of one key, newest first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    key: OrderedKey,
    sequence: Reverse<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Version<V> {
    version: V,
    replaced_at: u64,
}

impl<V: IndexedVersion> ReplacedVersions<V> {
    /// An empty map for keys in this order.
    pub fn new(order: KeyOrder) -> ReplacedVersions<V> {
        ReplacedVersions { order, versions: BTreeMap::new(), pins: HashMap::new(), bytes: 0 }
    }

    /// The order of the keys.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Number of versions.
    pub fn len(&self) -> usize {
        self.versions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    /// Approximate memory in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a version lies in this table file.
    pub fn pins(&self, file: u32) -> bool {
        self.pins.contains_key(&file)
    }

    /// The table files that versions lie in.
    pub fn pinned(&self) -> Vec<u32> {
        self.pins.keys().copied().collect()
    }

    /// Adds a version of `key`, visible from its own sequence number until `replaced_at`. Returns the key as the map
    /// keeps it, or `None` if the version is there already.
    pub fn insert(&mut self, key: &[u8], version: V, replaced_at: u64) -> Option<Arc<[u8]>> {
        let file = version.file();
        let name = self.name(key.into(), version.sequence());
        let key = name.key.key.clone();
        if self.versions.insert(name, Version { version, replaced_at }).is_some() {
            return None;
        }
        *self.pins.entry(file).or_default() += 1;
        self.bytes += version_bytes::<V>() + key.len();
        Some(key)
    }

    /// When the version of a key was replaced, if the map has it.
    pub fn replaced_at(&self, key: &Arc<[u8]>, sequence: u64) -> Option<u64> {
        self.versions.get(&self.name(key.clone(), sequence)).map(|version| version.replaced_at)
    }

    /// Removes a version, if it is there. Returns the number of its table file if no other version lies in that.
    pub fn remove(&mut self, key: &Arc<[u8]>, sequence: u64) -> Option<u32> {
        let file = self.versions.remove(&self.name(key.clone(), sequence))?.version.file();
        self.bytes -= version_bytes::<V>() + key.len();
        let pins = self.pins.get_mut(&file)?;
        *pins -= 1;
        if *pins > 0 {
            return None;
        }
        self.pins.remove(&file);
        Some(file)
    }

    /// The version of a key that is visible at `moment`.
    pub fn get(&self, key: &[u8], moment: u64) -> Option<V> {
        let (name, version) = self.versions.range(self.name(key.into(), moment)..).next()?;
        (*name.key.key == *key).then(|| visible(name, version, moment)).flatten()
    }

    /// The versions visible at `moment` with keys in a range, in key order.
    pub fn in_range(&self, range: (Bound<&[u8]>, Bound<&[u8]>), moment: u64) -> Vec<(Arc<[u8]>, V)> {
        let from = match range.0 {
            Bound::Included(key) => Bound::Included(self.name(key.into(), u64::MAX)),
            Bound::Excluded(key) => Bound::Excluded(self.name(key.into(), 0)),
            Bound::Unbounded => Bound::Unbounded,
        };
        self.versions
            .range((from, Bound::Unbounded))
            .take_while(|(name, _)| self.order.is_up_to(&name.key.key, range.1))
            .filter_map(|(name, version)| Some((name.key.key.clone(), visible(name, version, moment)?)))
            .collect()
    }

    fn name(&self, key: Arc<[u8]>, sequence: u64) -> Name {
        Name { key: OrderedKey::new(key, &self.order), sequence: Reverse(sequence) }
    }
}

fn visible<V: Copy>(name: &Name, version: &Version<V>, moment: u64) -> Option<V> {
    let is_visible = name.sequence.0 <= moment && moment < version.replaced_at;
    is_visible.then_some(version.version)
}
