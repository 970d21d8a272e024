//! [`Tier`]: what an engine does in a store. The second half of a tier.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Env, Result};
use slmdb_manifest::StoreState;

use super::cursor::TierCursor;
use super::parts::Parts;
use super::tier_state::TierState;
use crate::background::workers::Task;
use crate::stats::{Approximate, Stats, TableFile};
use crate::{Slice, VerifyProgress, VerifyReport};

/// The moment that a read sees.
#[derive(Debug, Clone, Copy)]
pub enum Moment {
    /// The present one.
    Now,
    /// One that is [registered](crate::read::snapshot_registry).
    At(u64),
}

/// What an engine's own files and lists are held by for a copy, until it is dropped.
pub trait Held {
    /// Whether it holds all that this state names.
    fn holds(&self, _: &StoreState) -> bool {
        true
    }
    /// Writes into a copy in this directory, durably, what the state names and what lies in no file, and lets the state name the
    /// files. Its directory is synced later.
    fn write_into(&self, _: &dyn Env, _directory: &Path, _: &mut StoreState) -> Result<()> {
        Ok(())
    }
}

impl Held for () {}

/// What an engine does below the MemTables.
pub trait Tier: Send + Sync + Sized + 'static {
    /// What it keeps.
    type State: TierState + 'static;
    /// How it is read in key order.
    type Cursor: TierCursor + 'static;

    /// The tier of an open store.
    fn new(store: &Arc<Parts>, state: &Arc<Self::State>) -> Self;
    /// Its background work: for as many compactions at once as the options say, then for the crews that its
    /// [kind](crate::directory::EngineKind) names.
    fn work(&self) -> Vec<Task>;

    /// The value of a key that no MemTable has at this moment.
    fn get(&self, key: &[u8], moment: Moment) -> Result<Option<Slice>>;
    /// Whether a key that no MemTable has at this moment has a value.
    fn contains_key(&self, key: &[u8], moment: Moment) -> Result<bool>;
    /// A cursor on no key, at a moment that is registered for it.
    fn cursor(&self, moment: u64) -> Self::Cursor;
    /// The approximate size of a range below the MemTables.
    fn approximate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate>;
    /// See [`crate::Engine::compact_range`].
    fn compact_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()>;
    /// See [`crate::Engine::verify`].
    fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport>;
    /// Keeps its [own files](crate::directory::EngineKind::own_files), all of them and no others, and its lists, until the returned
    /// value is dropped.
    fn hold_files(&self) -> Box<dyn Held + '_> {
        Box::new(())
    }
    /// See [`crate::Engine::table_files`].
    fn table_files(&self) -> Vec<TableFile>;
    /// Adds what is the engine's own.
    fn count_stats(&self, stats: &mut Stats);
    /// Leaves what it wants to leave to the next opening. The background work has ended.
    fn leave(&self) -> Result<()> {
        Ok(())
    }
}
