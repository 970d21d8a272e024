//! What a flush takes of the pool.

use slmdb_engine::Options;
use slmdb_engine::batch::Totals;
use slmdb_engine::space::allowance::Grant;
use slmdb_engine::space::reserve::longest_file;
use slmdb_engine::space::smallest_pool;
use slmdb_env::Result;
use slmdb_manifest::{MediumKind, StoreState};
use slmdb_pmem::{AnyMedium, ExtentKind, Pool, PoolOptions, UNIT_BYTES};
use slmdb_structures::hybrid_tree::{MAXIMUM_KEY_BYTES, pool_bytes_max};

/// How many table files a compaction for space may need at once. The oldest run file stays until all of it has gone to
/// level 1, and one file there is written anew with a part of it. Or a file of an upper level stays while it is merged with
/// one of the level below.
pub(crate) const OUTPUTS_FOR_SPACE: u64 = 2;

/// An output may have this part of all table files, or be as long as a MemTable's.
const PART_OF_ALL: u64 = 32;
/// The last output of a merge may be longer by this part.
const LONGER_PART: u64 = 4;

/// How long a table file may be for which there is a reserve, and how long outputs of compactions should be, in bytes. Longer
/// outputs would need so large a reserve that they come only when there is much else.
pub(crate) fn outputs(options: &Options, state: &StoreState) -> (u64, u64) {
    let lengths = || state.files.values().map(|file| file.length_bytes);
    let all_bytes: u64 = lengths().sum();
    let output_bytes = options.compaction.table_file_bytes.min(options.memtable_bytes.max(all_bytes / PART_OF_ALL));
    let usual_bytes = output_bytes.min(all_bytes);
    (longest_file(options, lengths()).max(usual_bytes + usual_bytes / LONGER_PART), output_bytes)
}

/// [`Error::Invalid`] if a pool with these options, and no larger than `device_bytes`, refuses every write.
pub(crate) fn check_pool(options: &Options, kind: MediumKind, device_bytes: Option<u64>) -> Result<()> {
    smallest_pool::check_pool(options, device_bytes, |pool| admit_one(options, kind, pool))
}

/// [`Error::Full`] if the first write would get that error.
fn admit_one(options: &Options, kind: MediumKind, pool: &PoolOptions) -> Result<()> {
    let pool = Pool::anonymous(AnyMedium::dram(), pool)?;
    if kind != MediumKind::Dram {
        pool.allocate_extent(ExtentKind::Arena, options.memtable_bytes, 1)?;
    }
    reserve(&pool, &Grant::least(options), 0)
}

/// Sets aside in the pool what flushing a grant takes. [`Error::Full`] if it is not there.
pub(crate) fn reserve(pool: &Pool<AnyMedium>, grant: &Grant, leaves: u64) -> Result<()> {
    let Totals { entries, key_bytes, longest_key_bytes, .. } = grant.totals;
    let longest_key_bytes = longest_key_bytes.min(MAXIMUM_KEY_BYTES as u32);
    let bytes = pool_bytes_max::<AnyMedium>(entries, key_bytes, longest_key_bytes, leaves);
    let piece_bytes = (u64::from(longest_key_bytes) * 2).max(UNIT_BYTES);
    // First lowered to the part that is free, so that raising it finds out what is missing.
    pool.set_reserve(pool.reserve_free_bytes().min(bytes), piece_bytes)?;
    pool.set_reserve(bytes, piece_bytes)
}
