//! What `repair` reports: its progress, what it has made, and what could not be saved.

use std::fmt;
use std::path::PathBuf;

use slmdb_env::Error;

/// The progress of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairProgress {
    /// Bytes of table files checked.
    pub done_bytes: u64,
    /// Bytes of table files in all.
    pub total_bytes: u64,
}

/// Something that could not be saved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The newest value of this key, which had this sequence number. The key has no value now.
    Key {
        /// The key.
        key: Vec<u8>,
        /// The sequence number of what is lost.
        sequence: u64,
    },
    /// A table file whose list of keys can't be read. Keys within these bounds may have lost their newest value: they
    /// may have an older one, none, or one that was deleted.
    TableFile {
        /// The number of the file.
        number: u32,
        /// How many of its entries counted, as far as that is known.
        entries: u64,
        /// The smallest key in it.
        smallest_key: Vec<u8>,
        /// The largest key in it.
        largest_key: Vec<u8>,
        /// The lowest sequence number in it.
        lowest_sequence: u64,
        /// The highest sequence number in it.
        highest_sequence: u64,
    },
    /// A list of the pool that can't be read, with the same consequences.
    List {
        /// Its number.
        number: u32,
        /// How many entries it had.
        entries: u64,
        /// The smallest key in it.
        smallest_key: Vec<u8>,
        /// The largest key in it.
        largest_key: Vec<u8>,
        /// The lowest sequence number in it.
        lowest_sequence: u64,
        /// The highest sequence number in it.
        highest_sequence: u64,
    },
    /// Entries of a table file of a level that has no list of its keys, or of a list. Keys within these bounds may have lost
    /// their newest value.
    Entries {
        /// The number of the file or list.
        number: u32,
        /// How many they are.
        entries: u64,
        /// No key of theirs is smaller than this,
        smallest_key: Vec<u8>,
        /// or larger than this.
        largest_key: Vec<u8>,
        /// Whether keys that had their newest value among them may have an older one now, or one that was deleted.
        /// Otherwise they have none.
        older_may_be_back: bool,
    },
    /// Writes that were in MemTables: all from this sequence number on.
    Writes {
        /// The first sequence number that is lost.
        from_sequence: u64,
    },
    /// Deletes up to this sequence number that no whole index checkpoint covers: what they deleted may be back.
    Deletes {
        /// The last sequence number of such a delete.
        through_sequence: u64,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Key { key, sequence } => {
                write!(to, "key {}: its value of sequence number {sequence}", key.escape_ascii())
            }
            Loss::TableFile { number, entries, smallest_key, largest_key, lowest_sequence, highest_sequence }
            | Loss::List { number, entries, smallest_key, largest_key, lowest_sequence, highest_sequence } => {
                let what = if matches!(self, Loss::List { .. }) { "list" } else { "table file" };
                write!(
                    to,
                    "{what} {number}: {entries} entries with keys {} to {}, sequence numbers {lowest_sequence} to \
                 {highest_sequence}; older values of these keys may have come back",
                    smallest_key.escape_ascii(),
                    largest_key.escape_ascii()
                )
            }
            Loss::Entries { number, entries, smallest_key, largest_key, older_may_be_back } => {
                let older = if *older_may_be_back { "may have come back" } else { "do not come back" };
                write!(
                    to,
                    "run {number}: {entries} entries with keys between {} and {}; older values of them {older}",
                    smallest_key.escape_ascii(),
                    largest_key.escape_ascii()
                )
            }
            Loss::Writes { from_sequence } => write!(to, "all writes from sequence number {from_sequence} on"),
            Loss::Deletes { through_sequence } => write!(
                to,
                "deletes up to sequence number {through_sequence}: keys that they deleted may have come back"
            ),
        }
    }
}

/// The outcome of a repair.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Table files read from end to end.
    pub table_files_checked: u64,
    /// Entries that were in MemTables and are in table files now.
    pub memtable_entries_saved: u64,
    /// Keys in the new index.
    pub index_keys: u64,
    /// The new pool, if the store has one.
    pub pool: Option<PathBuf>,
    /// What was found damaged, each with file and offset.
    pub damage: Vec<Error>,
    /// What could not be saved. Empty: everything was saved.
    pub losses: Vec<Loss>,
    /// Damaged files, under their new names.
    pub set_aside: Vec<PathBuf>,
    /// The pool of the store that this one is a copy of, if it is one that had no pool of its own. Nothing of it was changed.
    pub left_pool: Option<PathBuf>,
}
