//! How long outputs of compactions should be, and what the reserve has for them.

use slmdb_engine::Options;
use slmdb_engine::space::reserve::longest_file;

/// How many table files a compaction for space may need at once. A file of an upper level stays while it is merged
/// with one of the level below.
pub const OUTPUTS_FOR_SPACE: u64 = 2;

/// An output may have this part of all table files, or be as long as a MemTable's.
const PART_OF_ALL: u64 = 32;
/// The last output of a merge may be longer by this part.
const LONGER_PART: u64 = 4;

/// How long a table file may be for which there is a reserve, and how long outputs of compactions should be, in bytes. Longer
/// outputs would need so large a reserve that they come only when there is much else.
pub fn outputs(options: &Options, lengths: impl Iterator<Item = u64> + Clone) -> (u64, u64) {
    let all_bytes: u64 = lengths.clone().sum();
    let output_bytes = options.compaction.table_file_bytes.min(options.memtable_bytes.max(all_bytes / PART_OF_ALL));
    let usual_bytes = output_bytes.min(all_bytes);
    (longest_file(options, lengths).max(usual_bytes + usual_bytes / LONGER_PART), output_bytes)
}
