//! The bytes of a list. `docs/formats/list.md` has the tables.

/// How long the extent of a list has to be, in bytes: of so many entries, with so many bits of filter for each key, whose
/// smallest and largest key together have so many bytes, and whose entries lie in so many segments.
pub fn list_bytes(entries: u64, filter_bits_per_key: u32, key_bytes: u64, segments: u64) -> u64 {
    let _ = (entries, filter_bits_per_key, key_bytes, segments);
    todo!()
}
