//! What can be chosen about a table file, and the limits of its format.

use slmdb_env::{Error, Result};

use crate::compression::Compression;

/// The longest key, in bytes.
pub const MAXIMUM_KEY_BYTES: usize = 65_535;
/// The longest value, in bytes: 256 MiB.
pub const MAXIMUM_VALUE_BYTES: usize = 256 << 20;
/// The longest table file, in bytes: all places in it have to fit [`Place`](crate::Place)'s 32 bits.
pub const MAXIMUM_FILE_BYTES: u64 = u32::MAX as u64;
/// The smallest [`TableOptions::block_bytes`].
pub const SMALLEST_BLOCK_BYTES: usize = 64;
/// The largest [`TableOptions::block_bytes`]: 1 MiB.
pub const LARGEST_BLOCK_BYTES: usize = 1 << 20;

/// The highest [`TableForm::ByKey::filter_bits_per_key`].
pub const MAXIMUM_FILTER_BITS_PER_KEY: u32 = 64;

/// How entries of a table file are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TableForm {
    /// By their places, which an index outside the file knows. The file has a key section, which that index is built from. An entry
    /// stands by itself unless compression pays.
    #[default]
    ByPlace,
    /// By their keys, as the files of levels are. The file has an index and filters, which are read a chunk at a time, and no key
    /// section. Entries stand in blocks unless they are longer than one.
    ByKey {
        /// How many bits of a filter there are for each key: 10 let about one look in a hundred for a missing key read a block in
        /// vain. From 0, which leaves filters out, to [`MAXIMUM_FILTER_BITS_PER_KEY`].
        filter_bits_per_key: u32,
    },
}

impl TableForm {
    /// For levels: [`TableForm::ByKey`] with 10 bits a key.
    pub const LEVELS: TableForm = TableForm::ByKey { filter_bits_per_key: 10 };
}

/// How a [`TableBuilder`](crate::TableBuilder) builds. Readers need none of this: a file says how to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableOptions {
    /// The most bytes that a block of more than one entry takes before compression, trailer included. A `get` reads and
    /// keeps whole blocks, so smaller ones suit small values read at random, larger ones scans and compression.
    /// From [`SMALLEST_BLOCK_BYTES`] to [`LARGEST_BLOCK_BYTES`]; default 4096.
    pub block_bytes: usize,
    /// Every this many entries of a block a key is stored whole; the keys up to the next such leave out what they have in
    /// common with it at their heads. Larger suits keys with long common heads, 1 keys with none. From 1 to 65,535;
    /// default 16.
    pub restart_interval: usize,
    /// How parts are stored; default LZ4.
    pub compression: Compression,
    /// How entries are found; default by their places.
    pub form: TableForm,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            block_bytes: 4096,
            restart_interval: 16,
            compression: Compression::default(),
            form: TableForm::default(),
        }
    }
}

impl TableOptions {
    /// [`Error::Invalid`] for options outside their limits, [`Error::Unsupported`] for a compression that is not built in,
    /// else the restart interval.
    pub(crate) fn check(&self) -> Result<u16> {
        self.compression.check()?;
        if !(SMALLEST_BLOCK_BYTES..=LARGEST_BLOCK_BYTES).contains(&self.block_bytes) {
            let what =
                format!("blocks of {} bytes: not {SMALLEST_BLOCK_BYTES} to {LARGEST_BLOCK_BYTES}", self.block_bytes);
            return Err(Error::invalid(what));
        }
        if let TableForm::ByKey { filter_bits_per_key } = self.form
            && filter_bits_per_key > MAXIMUM_FILTER_BITS_PER_KEY
        {
            let what = format!("{filter_bits_per_key} bits of a filter a key: more than {MAXIMUM_FILTER_BITS_PER_KEY}");
            return Err(Error::invalid(what));
        }
        match u16::try_from(self.restart_interval) {
            Ok(interval) if interval > 0 => Ok(interval),
            _ => {
                Err(Error::invalid(format!("a restart interval of {} entries: not 1 to 65535", self.restart_interval)))
            }
        }
    }
}
