//! What compaction may not change, and what is so after `compact_range`.

mod compact_range;
mod faults;
mod nothing_is_lost;
