//! Hostile bytes: whatever a medium holds, reading it gives an error or right answers. Never a panic, a hang, an endless
//! cycle, an access out of bounds, nor more memory than the bytes themselves, the budget and one largest value.
//!
//! Each [`Target`] is a function from any bytes to nothing: it makes of them a file, or a whole store, reads it in every
//! way there is, and panics where the promise is broken. The same functions are run by libFuzzer (`fuzz/`, `scripts/fuzz`),
//! and by `cargo test -p slmdb-hostile`, which replays what fuzzing has gathered and found and adds mutations of its own.
//!
//! An input begins with a byte that says how to take the rest ([`Mode`]): as a file, or as a [`script`] of edits to a sound
//! one; and whether checksums are then [mended](mend), so that what stands behind them is reached. What may be asserted
//! depends on that:
//!
//! - a sound file that was edited and **not mended** gives what was written, or an error; where the format can't tell damage
//!   from a crash (the end of a log), a prefix of what was written;
//! - bytes that were **mended** may mean anything. They give errors, or answers that agree with each other.
//!
//! To be read: [`script`], [`mend`], then the targets, in the order of [`Target::ALL`].
#![forbid(unsafe_code)]

pub mod mend;
pub mod script;

mod arena;
mod checkpoint;
mod import;
mod manifest;
mod memory;
mod mutate;
mod pool;
mod store;
mod table;
mod table_by_key;
pub mod tree;

pub use store::sound::make_all as make_sound_stores;

pub use mutate::mutate;
use slmdb_env::memory::Random;

use slmdb_env::{Error, ErrorKind};

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
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 11] = [
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
            Target::StoreDram => store::run(store::On::Dram, input),
            Target::StoreEmulated => store::run(store::On::Emulated, input),
            Target::TableByKey => table_by_key::run(input),
            Target::StoreImage => store::run(store::On::DramWithImage, input),
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
            Target::Import => return import::seeds(),
            Target::Pool | Target::Tree => Vec::new(),
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

/// How an input is to be taken: its first byte.
#[derive(Debug, Clone, Copy)]
pub struct Mode(u8);

impl Mode {
    /// The rest is a file, not a script of edits.
    pub const WHOLE: u8 = 1;
    /// Checksums are mended.
    pub const MENDED: u8 = 2;
    /// What it means is the target's.
    pub const OPTION: u8 = 4;
    /// Which sound file is edited is above this bit.
    pub const SOUND_SHIFT: u8 = 3;

    /// Takes the first byte of an input off.
    pub fn split(input: &[u8]) -> Option<(Mode, &[u8])> {
        input.split_first().map(|(&mode, rest)| (Mode(mode), rest))
    }

    /// Whether the rest is a file.
    pub fn is_whole(self) -> bool {
        self.0 & Mode::WHOLE != 0
    }

    /// Whether checksums are mended.
    pub fn is_mended(self) -> bool {
        self.0 & Mode::MENDED != 0
    }

    /// The target's own bit.
    pub fn has_option(self) -> bool {
        self.0 & Mode::OPTION != 0
    }

    /// A number below `count`: which sound file.
    pub fn sound(self, count: usize) -> usize {
        usize::from(self.0 >> Mode::SOUND_SHIFT) % count
    }

    /// The file that the rest of an input stands for, not mended.
    pub fn file(self, rest: &[u8], sound: &[u8]) -> Vec<u8> {
        if self.is_whole() {
            return rest.to_vec();
        }
        let mut file = [sound.to_vec()];
        script::apply(rest, &mut file);
        let [file] = file;
        file
    }

    /// Mends the checksums of a file, if that is wanted. A sound one must not change.
    fn mend(self, bytes: &mut [u8], sound: &[u8], mend: impl FnOnce(&mut [u8])) {
        if self.is_mended() {
            let is_sound = bytes == sound;
            mend(bytes);
            assert!(!is_sound || bytes == sound, "mending has changed a sound file");
        }
    }

    /// Whether what was read has to be what was written.
    pub fn is_strict(self) -> bool {
        !self.is_whole() && !self.is_mended()
    }
}

/// What damaged bytes may give.
fn expected(error: &Error) {
    let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported];
    assert!(kinds.contains(&error.kind()), "not an error for damaged bytes: {error:?}");
    if let Error::Corruption { file, .. } = error {
        assert!(!file.as_os_str().is_empty(), "no file named: {error}");
    }
}
