//! [`Filter`]: which keys a MemTable can't have.
//!
//! Most gets of a store are for keys that its active MemTable does not have, and a search of the skiplist that finds nothing takes as long
//! as a third of a look into the index. So a MemTable remembers its keys in a Bloom filter: 8 bits for each entry that it may come to
//! have, of which a key sets four. They all lie in one word, so that setting and asking take one access to memory each; that
//! makes a twentieth of the keys it has not look as if it might, where bits all over the filter would make a fortieth.
//!
//! **Who sees what.** A word is set before the key's entry is linked, and so before its sequence number is published; who
//! looks a published number up has seen the publication first. So nobody misses a key that he is to find, and the bits
//! themselves need no order.
//!
//! Bits are made from bytes, so two keys that a comparator holds to be equal would have different ones: there is no filter where
//! keys are not ordered by bytes.

use std::sync::atomic::Ordering;

use slmdb_sync::modelled::AtomicU64;

/// Bytes of an arena for which a filter has a byte. (Engines end a MemTable that has an entry for each so many.)
const ARENA_BYTES_PER_BYTE: u64 = 256;
const WORDS_MIN: u64 = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct Filter {
    words: Box<[AtomicU64]>,
}

impl Filter {
    /// An empty one for an arena of this length.
    pub fn for_arena(arena_bytes: u64) -> Filter {
        Filter::of_words((arena_bytes / ARENA_BYTES_PER_BYTE / size_of::<u64>() as u64).max(WORDS_MIN))
    }

    fn of_words(words: u64) -> Filter {
        Filter { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// What it takes in memory, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.words) as u64
    }

    /// Remembers a key.
    #[inline]
    pub fn add(&self, key: &[u8]) {
        let (word, bits) = self.place(key);
        // Looking first saves a write where a key comes again.
        if word.load(Ordering::Relaxed) & bits != bits {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Whether the key may have been added; if it was, this is so.
    #[inline]
    pub fn may_have(&self, key: &[u8]) -> bool {
        let (word, bits) = self.place(key);
        word.load(Ordering::Relaxed) & bits == bits
    }

    /// Where a key's bits are, and which they are.
    #[inline]
    fn place(&self, key: &[u8]) -> (&AtomicU64, u64) {
        // The checksum, which the processor has built in, tells keys apart, and the multiplication spreads that over the word.
        let hash = u64::from(slmdb_checksum::crc32c(key)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = hash ^ hash >> 32;
        let index = ((hash & 0xffff_ffff) * self.words.len() as u64) >> 32;
        let bits = (0..4).fold(0, |bits, at| bits | 1 << (hash >> (36 + 6 * at) & 63));
        (&self.words[index as usize], bits)
    }
}

#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use slmdb_sync::model::{check, thread};

    use super::*;

    #[test]
    fn loom_filter_against_a_published_key() {
        check("loom_filter_against_a_published_key", 3, || {
            // Of one word, so that both threads change the same.
            let (filter, published) = (Arc::new(Filter::of_words(1)), Arc::new(AtomicU64::new(0)));
            let (its_filter, its_published) = (filter.clone(), published.clone());
            let writer = thread::spawn(move || {
                its_filter.add(b"one");
                its_published.fetch_or(1, Ordering::Release);
            });
            filter.add(b"other");
            if published.load(Ordering::Acquire) == 1 {
                assert!(filter.may_have(b"one"));
            }
            assert!(filter.may_have(b"other"));
            writer.join().unwrap();
            assert!(filter.may_have(b"one") && filter.may_have(b"other"));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ARENA_BYTES: u64 = 16 << 20;
    const KEYS: u64 = ARENA_BYTES / ARENA_BYTES_PER_BYTE;

    #[test]
    fn every_key_that_was_added_is_had_and_few_others_are() {
        for make in [|number: u64| format!("user{number:016}"), |number: u64| format!("{number}/a/long/tail/of/it")] {
            let filter = Filter::for_arena(ARENA_BYTES);
            assert_eq!(filter.memory_bytes(), KEYS);
            assert!((0..KEYS).all(|number| !filter.may_have(make(number).as_bytes())));
            (0..KEYS).for_each(|number| filter.add(make(number).as_bytes()));
            assert!((0..KEYS).all(|number| filter.may_have(make(number).as_bytes())));
            let others = (KEYS..2 * KEYS).filter(|&number| filter.may_have(make(number).as_bytes())).count() as u64;
            assert!(others < KEYS * 7 / 100, "{others} of {KEYS}");
        }
    }

    #[test]
    fn small_arenas_have_filters_too() {
        let filter = Filter::for_arena(100);
        filter.add(b"");
        assert!(filter.may_have(b"") && !filter.may_have(b"a"));
        assert_eq!(filter.memory_bytes(), 64);
    }
}
