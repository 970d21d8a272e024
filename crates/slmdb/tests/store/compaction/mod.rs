//! What compaction may not change, and what is so after `compact_range`.

mod at_rest;
mod compact_range;
mod faults;
mod nothing_is_lost;
