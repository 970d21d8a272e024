//! A damaged hash table: opened, verified, every key looked for, every part read.

use std::path::Path;
use std::sync::OnceLock;

use slmdb_env::{ErrorKind, Result};
use slmdb_structures::hash::{HashTable, KeyHasher, Slot, SlotPlace, TableBuilder, TableBytes, TableOptions};

use crate::memory::within;
use crate::mend;
use crate::mode::{Mode, expected};

const NUMBER: u32 = 7;
const UUID: [u8; 16] = [7; 16];
const SHARDS: u32 = 8;

/// Bytes as a table in a file has them.
#[derive(Debug)]
struct Memory<'b>(&'b [u8]);

impl TableBytes for Memory<'_> {
    fn path(&self) -> &Path {
        Path::new("/table")
    }

    fn length_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn copy(&self, at: u64, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(&self.0[at as usize..][..into.len()]);
        Ok(())
    }
}

/// What a table has: the slots of each shard, by their hashes; none of a shard without a part.
type Parts = Vec<Option<Vec<Slot>>>;

fn hasher() -> KeyHasher {
    KeyHasher::new(b"a secret of ours", SHARDS).expect("a power of two")
}

/// Some keys, for the parts that a table has: all of them, or some, of which one is empty.
fn parts(keys: u32, has: &[u16]) -> Parts {
    let hasher = hasher();
    let mut identities: Vec<_> = (0..keys).map(|key| (hasher.identity(&key.to_le_bytes()), key)).collect();
    identities.sort_unstable();
    let slots_of = |shard: u16| {
        let own = identities.iter().filter(|(identity, _)| identity.shard() == shard && shard != 2);
        let slot = |&(identity, key)| {
            let place = SlotPlace { file: 1 + key % 9, offset: key * 64, length_bytes: 64 };
            Slot::new(&identity, place, key % 7 == 0).expect("it has a length")
        };
        own.map(slot).collect()
    };
    (0..SHARDS as u16).map(|shard| has.contains(&shard).then(|| slots_of(shard))).collect()
}

fn file(parts: &Parts, load_percent: u32) -> Result<Vec<u8>> {
    let options = TableOptions { number: NUMBER, uuid: UUID, level: 255, epoch: 1, shards: SHARDS, range: 1..7 };
    let mut builder = TableBuilder::new(options)?;
    for (shard, part) in (0..).zip(parts) {
        let Some(slots) = part else { continue };
        builder.begin_part(shard, load_percent)?;
        slots.iter().try_for_each(|slot| builder.add(*slot))?;
    }
    Ok(builder.finish()?.bytes().to_vec())
}

fn sound() -> &'static [(Vec<u8>, Parts)] {
    static SOUND: OnceLock<Vec<(Vec<u8>, Parts)>> = OnceLock::new();
    SOUND.get_or_init(|| {
        let all = [parts(600, &[1, 2, 3, 4, 5, 6]), parts(150, &[2, 4, 5])];
        all.into_iter().map(|parts| (file(&parts, 80).expect("slots in order"), parts)).collect()
    })
}

/// The sound tables that inputs edit.
pub fn files() -> Vec<Vec<u8>> {
    sound().iter().map(|(bytes, _)| bytes.clone()).collect()
}

/// Runs an input.
pub fn run(input: &[u8]) {
    let Some((mode, rest)) = Mode::split(input) else { return };
    let (sound, parts) = &sound()[mode.sound(sound().len())];
    let mut bytes = mode.file(rest, sound);
    mode.mend(&mut bytes, sound, mend::hash_table::mend);
    within(4 * bytes.len() + (1 << 20), || exercise(&bytes, parts, bytes == *sound, mode));
}

/// Everything that can be done with a table is done with a damaged one.
fn exercise(bytes: &[u8], parts: &Parts, is_sound: bool, mode: Mode) {
    let table = match HashTable::open(Memory(bytes), NUMBER, UUID) {
        Ok(table) => table,
        Err(error) => {
            assert!(!is_sound, "a sound table is refused: {error}");
            return expected(&error);
        }
    };
    let faults = table.verify();
    faults.iter().for_each(expected);
    assert!(!is_sound || faults.is_empty(), "{faults:?}");
    for (shard, part) in (0..).zip(parts) {
        // What a search gives may be wrong, but it is the slot of what was looked for.
        for identity in part.iter().flatten().map(|slot| slot.identity(shard)) {
            match table.get(&identity) {
                Ok(found) => assert!(found.is_none_or(|slot| slot.identity(shard) == identity)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption),
            }
        }
        let all: Result<Vec<Slot>> = table.slots(shard).collect();
        let Ok(all) = all else {
            assert!(!faults.is_empty(), "a part that can't be read, and verify has not seen it");
            continue;
        };
        let has_part = table.entries_of(shard).is_some();
        let written = part.iter().flatten();
        let is_right = has_part == part.is_some() && all.iter().eq(written);
        assert!(is_right || !mode.is_strict(), "other slots in shard {shard}, and no error");
        for slot in &all {
            let found = table.get(&slot.identity(shard)).ok().flatten();
            assert_eq!(found, Some(*slot), "a slot that no search finds");
        }
    }
}
