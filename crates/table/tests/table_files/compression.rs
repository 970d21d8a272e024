//! Which blocks are compressed.

use crate::support::{Entry, build, open, places_of, read_all, small_options};
use slmdb_table::Compression;
use slmdb_testkit::MemoryEnv;

/// Bytes that can't be compressed (xorshift64).
fn noise(number: u32) -> Vec<u8> {
    let mut state = u64::from(number) + 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..40).flat_map(|_| next()).collect()
}

/// Trying is given up for blocks that can't be compressed, and taken up again where they can: a file that begins with noise is
/// made smaller behind it all the same.
#[test]
fn blocks_behind_noise_are_compressed_again() {
    let entry = |number: u32| {
        let value = if (200..400).contains(&number) { vec![5; 320] } else { noise(number) };
        Entry::put(format!("key {number:05}"), u64::from(number) + 1, value)
    };
    let entries: Vec<Entry> = (0..600).map(entry).collect();
    let env = MemoryEnv::new();
    build(&env, &entries, small_options(Compression::Lz4)).unwrap();
    assert_eq!(read_all(&env).unwrap(), entries);

    let places = places_of(&open(&env).unwrap().key_section().unwrap()).unwrap();
    assert_eq!(places.len(), 600, "each entry has a block of its own here");
    let is_small: Vec<bool> = places.iter().map(|place| place.length < 100).collect();
    assert!(!is_small[..200].contains(&true) && !is_small[400..].contains(&true));
    let large = is_small[200..400].iter().take_while(|small| !**small).count();
    assert!(large < 16, "the next try is never far: {large} blocks were not tried");
    assert!(!is_small[200 + large..400].contains(&false), "and from there on all are");
}
