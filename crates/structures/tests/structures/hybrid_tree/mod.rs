//! The hybrid tree: against a model, through crashes, with damaged bytes, and with readers beside the writer.

mod crash;
mod hostile;
mod model;
mod space;
mod stress;

use std::collections::BTreeMap;
use std::sync::Arc;

use slmdb_order::KeyOrder;
use slmdb_pmem::{Medium, Pool, PoolOptions, Slots};
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::{Entry, HybridTree, LeafCopy, Place, Size, Version};

pub type Model = BTreeMap<Vec<u8>, Version>;

/// A version whose fields all follow from its number.
pub fn version(sequence: u64) -> Version {
    let kind = if sequence.is_multiple_of(5) { EntryKind::Delete } else { EntryKind::Put };
    let (file, offset, length_bytes) = (1 + (sequence / 64) as u32, sequence as u32 * 16, 1 + sequence as u32 % 9);
    Version { sequence, kind, file, offset, length_bytes }
}

pub struct Store<M: Medium> {
    pub pool: Arc<Pool<M>>,
    pub tree: HybridTree<M>,
}

impl<M: Medium> Store<M> {
    pub fn create(medium: M, order: KeyOrder) -> Store<M> {
        let options = PoolOptions { initial_bytes: 0, growth_bytes: 64 << 10, maximum_bytes: 256 << 20, uuid: [7; 16] };
        let pool = Arc::new(Pool::anonymous(medium, &options).unwrap());
        let slots = Arc::new(Slots::open(Arc::clone(&pool)).unwrap());
        let tree = HybridTree::create(slots, 0, 1, order).unwrap();
        Store { pool, tree }
    }

    pub fn open(medium: M, image: Vec<u8>, order: KeyOrder) -> slmdb_env::Result<Store<M>> {
        Store::open_keeping(medium, image, order, |_| true)
    }

    pub fn open_keeping(
        medium: M,
        image: Vec<u8>,
        order: KeyOrder,
        keep: impl Fn(&Entry<'_>) -> bool,
    ) -> slmdb_env::Result<Store<M>> {
        let pool = Arc::new(Pool::from_image(medium, image)?);
        let slots = Arc::new(Slots::open(Arc::clone(&pool))?);
        let tree = HybridTree::open(Arc::clone(&slots), 0, order, keep)?;
        slots.return_empty();
        Ok(Store { pool, tree })
    }

    pub fn apply(&self, keys: &Model) {
        let mut keys: Vec<_> = keys.iter().map(|(key, version)| Entry { key, version: *version }).collect();
        keys.sort_by(|left, right| self.tree.order().compare(left.key, right.key));
        self.tree.apply(keys, |_, _| {}).unwrap();
    }

    /// All there is, copied leaf by leaf.
    pub fn forwards(&self) -> Vec<(Vec<u8>, Version)> {
        let (mut copy, mut all) = (LeafCopy::default(), Vec::new());
        let mut more = self.tree.copy_leaf(Place::First, &mut copy).unwrap();
        assert!(!more || copy.low().is_none());
        while more {
            all.extend(copy.iter().map(|(key, version)| (key.to_vec(), version)));
            let Some(high) = copy.high().map(<[u8]>::to_vec) else { break };
            more = self.tree.copy_leaf(Place::At(&high), &mut copy).unwrap();
            assert_eq!(copy.low(), Some(&high[..]));
        }
        all
    }

    pub fn backwards(&self) -> Vec<(Vec<u8>, Version)> {
        let (mut copy, mut all) = (LeafCopy::default(), Vec::new());
        let mut more = self.tree.copy_leaf(Place::Last, &mut copy).unwrap();
        assert!(!more || copy.high().is_none());
        while more {
            all.extend(copy.iter().rev().map(|(key, version)| (key.to_vec(), version)));
            let Some(low) = copy.low().map(<[u8]>::to_vec) else { break };
            more = self.tree.copy_leaf(Place::Before(&low), &mut copy).unwrap();
            assert_eq!(copy.high(), Some(&low[..]));
        }
        all.reverse();
        all
    }

    /// That the tree is whole and has this.
    pub fn check(&self, model: &Model) {
        let faults = HybridTree::verify(&[&self.tree]);
        assert!(faults.is_empty(), "{faults:#?}");
        let mut wanted: Vec<_> = model.clone().into_iter().collect();
        wanted.sort_by(|left, right| self.tree.order().compare(&left.0, &right.0));
        assert!(self.forwards() == wanted, "forwards");
        assert!(self.backwards() == wanted, "backwards");
        for (key, version) in model {
            assert_eq!(self.tree.get(key).unwrap(), Some(*version), "{}", key.escape_ascii());
        }
        let counts = self.tree.counts();
        assert_eq!(counts.keys, model.len() as u64);
        let mut live = BTreeMap::new();
        model.values().for_each(|version| *live.entry(version.file).or_insert(0) += 1);
        assert_eq!(counts.live, live);
        let size = Size { keys: counts.keys, leaves: counts.leaves, bytes: counts.leaf_bytes + counts.record_bytes };
        assert_eq!(self.tree.size(), size);
    }
}
