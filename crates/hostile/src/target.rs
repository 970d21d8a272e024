//! [`Target`]: what bytes are given to, by name.

use slmdb_testkit::Random;

use crate::mode::Mode;
use crate::store::kind::On;
use crate::{arena, checkpoint, hash_table, import, list, manifest, pool, store, table, table_by_key, tree};

/// What bytes are given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A table file.
    Table,
    /// The MANIFEST.
    Manifest,
    /// An index checkpoint.
    Checkpoint,
    /// The arena of a MemTable.
    Arena,
    /// The pool: header, map and extents.
    Pool,
    /// The index: nodes, intents, key records and key segments in a pool.
    Tree,
    /// The formats that the command line imports.
    Import,
    /// A whole directory on `Dram`.
    StoreDram,
    /// A whole directory and its pool.
    StoreEmulated,
    /// A table file that is searched by key.
    TableByKey,
    /// A whole directory on `Dram` with an image of the index.
    StoreImage,
    /// Lists and segments in a pool.
    List,
    /// A packed hash table.
    HashTable,
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 13] = [
        Target::Table,
        Target::Manifest,
        Target::Checkpoint,
        Target::Arena,
        Target::Pool,
        Target::Tree,
        Target::Import,
        Target::StoreDram,
        Target::StoreEmulated,
        Target::TableByKey,
        Target::StoreImage,
        Target::List,
        Target::HashTable,
    ];

    /// Its name: of its corpus, and for `scripts/fuzz`.
    pub fn name(self) -> &'static str {
        match self {
            Target::Table => "table",
            Target::Manifest => "manifest",
            Target::Checkpoint => "checkpoint",
            Target::Arena => "arena",
            Target::Pool => "pool",
            Target::Tree => "tree",
            Target::Import => "import",
            Target::StoreDram => "store-dram",
            Target::StoreEmulated => "store-emulated",
            Target::TableByKey => "table-by-key",
            Target::StoreImage => "store-image",
            Target::List => "list",
            Target::HashTable => "hash-table",
        }
    }

    /// The target of this name.
    pub fn named(name: &str) -> Option<Target> {
        Target::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Runs an input.
    ///
    /// # Panics
    ///
    /// If a promise is broken.
    pub fn run(self, input: &[u8]) {
        match self {
            Target::Table => table::run(input),
            Target::Manifest => manifest::run(input),
            Target::Checkpoint => checkpoint::run(input),
            Target::Arena => arena::run(input),
            Target::Pool => pool::run(input),
            Target::Tree => tree::run(input),
            Target::Import => import::run(input),
            Target::StoreDram => store::run(On::Dram, input),
            Target::StoreEmulated => store::run(On::Emulated, input),
            Target::TableByKey => table_by_key::run(input),
            Target::StoreImage => {
                [On::DramWithImage, On::DramWithPoolImage].into_iter().for_each(|on| store::run(on, input))
            }
            Target::List => list::run(input),
            Target::HashTable => hash_table::run(input),
        }
    }

    /// Inputs to begin with: each sound file whole, and some edits of each.
    pub fn seeds(self) -> Vec<Vec<u8>> {
        let whole = |files: &[Vec<u8>]| -> Vec<Vec<u8>> {
            files.iter().map(|file| [&[Mode::WHOLE | Mode::MENDED], &file[..]].concat()).collect()
        };
        let mut seeds = match self {
            Target::Table => whole(&table::files()),
            Target::TableByKey => whole(&table_by_key::files()),
            Target::Manifest => whole(&manifest::files()),
            Target::Checkpoint => whole(&checkpoint::files()),
            Target::Arena => whole(&arena::files()),
            Target::HashTable => whole(&hash_table::files()),
            Target::Import => return import::seeds(),
            Target::Pool | Target::Tree | Target::List => Vec::new(),
            Target::StoreDram | Target::StoreEmulated | Target::StoreImage => Vec::new(),
        };
        let mut random = Random(self as u64);
        for sound in 0..8 {
            for bits in [0, Mode::MENDED] {
                let mut seed = vec![bits | sound << Mode::SOUND_SHIFT];
                seeds.push(seed.clone());
                seed.extend((0..24).map(|_| random.number() as u8));
                seeds.push(seed);
            }
        }
        seeds
    }
}
