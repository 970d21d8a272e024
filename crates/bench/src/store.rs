//! What a store has to be able to do to be measured: [`Store`], and [`Opener`], which makes and opens it.
//!
//! Small, so that a peer is an afternoon's work, and without a copy that a store's own interface does not make: values are
//! looked at where they are, batches come as slices. One set of workloads drives every store through it.

use std::path::Path;

use crate::error::Result;

/// An open store, used from several threads at once. Dropping it closes it; [`Store::close`] also tells whether that worked.
pub trait Store: Send + Sync {
    /// Sets the value of `key`.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Sets several, all or none.
    fn put_all(&self, entries: &[(&[u8], &[u8])]) -> Result<()>;

    /// Removes `key`, if it is there.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Has `look` called with the value of `key`; false if there is none.
    fn get(&self, key: &[u8], look: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Sets the value of `key` if it has one: "insert if exists", by the cheapest way the store has. As it stands here it is for
    /// stores that have none of their own.
    fn update_if_present(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let present = self.get(key, &mut |_| {})?;
        if present {
            self.put(key, value)?;
        }
        Ok(present)
    }

    /// Goes over entries in key order for as long as `visit` says true.
    fn walk(&self, start: Start<'_>, visit: &mut dyn FnMut(&mut dyn Entry) -> Result<bool>) -> Result<()>;

    /// Makes everything written so far survive a power cut.
    fn sync(&self) -> Result<()>;

    /// Brings what is in memory into the store's files, where anything waits there.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Compacts everything, and waits for it, where there is anything to compact.
    fn compact(&self) -> Result<()> {
        Ok(())
    }

    /// What the store itself counts and knows.
    fn numbers(&self) -> Numbers {
        Numbers::default()
    }

    /// What it says of itself as text, if it does.
    fn describe(&self, what: Description) -> Option<String> {
        let _ = what;
        None
    }

    /// Closes it; dropping it does, too, where nothing can go wrong.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Where [`Store::walk`] begins, and which way it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start<'k> {
    /// At the first key at or after this one, upwards.
    At(&'k [u8]),
    /// At the first key, upwards.
    First,
    /// At the last key, downwards.
    Last,
}

/// An entry that a walk is on. The value is looked for only when it is asked for.
pub trait Entry {
    /// Its key.
    fn key(&self) -> &[u8];
    /// Its value.
    fn value(&mut self) -> Result<&[u8]>;
}

/// What a store may say of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Description {
    /// Its statistics.
    Stats,
    /// Its files.
    TableFiles,
}

/// What a store counts and knows of itself; what it doesn't is `None`. Those that only grow come first.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Numbers {
    /// Bytes it has written to files.
    pub file_bytes_written: Option<u64>,
    /// How long its flushes and compactions took, added up, in nanoseconds.
    pub compaction_ns: Option<u64>,
    /// Bytes that were to be made durable in the fast tier.
    pub fast_tier_bytes_asked: Option<u64>,
    /// Bytes of cache lines written back to it.
    pub fast_tier_bytes_flushed: Option<u64>,
    /// Bytes its medium had to write, in its own units.
    pub fast_tier_media_bytes: Option<u64>,
    /// Bytes of its files of level 0: what an LSM tree has not merged yet. (SLM-DB has no other.)
    pub level_zero_bytes: Option<u64>,
    /// Bytes it takes in the fast tier now.
    pub fast_tier_bytes: Option<u64>,
    /// The index's part of it, for each key.
    pub fast_tier_index_bytes_per_key: Option<f64>,
    /// What it keeps in plain memory, by its own account.
    pub memory_bytes: Option<u64>,
}

impl Numbers {
    /// The same, with what only grows counted from `before`.
    pub fn since(&self, before: &Numbers) -> Numbers {
        let grown = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        Numbers {
            file_bytes_written: grown(self.file_bytes_written, before.file_bytes_written),
            compaction_ns: grown(self.compaction_ns, before.compaction_ns),
            fast_tier_bytes_asked: grown(self.fast_tier_bytes_asked, before.fast_tier_bytes_asked),
            fast_tier_bytes_flushed: grown(self.fast_tier_bytes_flushed, before.fast_tier_bytes_flushed),
            fast_tier_media_bytes: grown(self.fast_tier_media_bytes, before.fast_tier_media_bytes),
            ..*self
        }
    }
}

/// Which store [`Opener::open`] is to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// A new, empty one; whatever a benchmark left there before is removed.
    Fresh,
    /// The one that is there.
    Existing,
}

/// Makes and opens stores of one kind and with one set of options, always in the same place.
pub trait Opener {
    /// What the store is called.
    fn name(&self) -> &str;

    /// Opens one. With `sync` every write is to survive a power cut before it returns.
    fn open(&self, which: Which, sync: bool) -> Result<Box<dyn Store>>;

    /// The directory that its files are in, if it has one.
    fn directory(&self) -> Option<&Path>;
}
