//! The format, byte for byte.

use slmdb_env::ErrorKind;
use slmdb_pmem::{Dram, ExtentKind};
use slmdb_structures::hash::{HashTable, Identity, KeyHasher, Slot, SlotPlace, TableBuilder, TableOptions};

use super::{Memory, UUID, open, pool};

fn hexadecimal(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(16).map(line).collect::<Vec<_>>().join("\n")
}

/// Two parts of shards 2 and 4, and nothing of shard 3. The keys' hashes are real ones.
fn small() -> TableBuilder {
    let hasher = KeyHasher::new(b"a secret of ours", 8).unwrap();
    let options = TableOptions { number: 5, uuid: UUID, level: 254, epoch: 0x0123_4567, shards: 8, range: 2..5 };
    let mut builder = TableBuilder::new(options).unwrap();
    let mut identities: Vec<Identity> = (0..20_u8).map(|key| hasher.identity(&[b'k', key])).collect();
    identities.sort_unstable();
    for shard in [2, 4] {
        builder.begin_part(shard, 75).unwrap();
        for (number, identity) in (1..).zip(identities.iter().filter(|identity| identity.shard() == shard)) {
            let place = SlotPlace { file: 0x1000 + number, offset: 0x2000 + number, length_bytes: 0x300 + number };
            builder.add(Slot::new(identity, place, number == 2).unwrap()).unwrap();
        }
    }
    builder
}

#[test]
fn a_table_has_these_bytes() {
    let table = small().finish().unwrap();
    assert_eq!(hexadecimal(table.bytes()), include_str!("table.hex").trim_end());
    let pool = pool(Dram);
    let extent = table.write_to_pool(&pool, slmdb_pmem::Claim::Privileged).unwrap();
    assert_eq!((extent.kind, extent.owner), (ExtentKind::HashTable, 5));
    // SAFETY: of a complete table.
    let bytes = unsafe { pool.bytes(extent.offset, table.record().length_bytes) }.unwrap();
    assert!(bytes == table.bytes());
    assert!(open(&pool, extent, 5).unwrap().verify().is_empty());
}

#[test]
fn the_document_has_the_constants() {
    let document = include_str!("../../../../../docs/formats/hash-table.md");
    for says in [
        "| 0 | 4 | magic | `HASH`",
        "| 12 | 4 | format version | 1 |",
        "| 64 | ",
        "multiples of 256",
        "24 bytes",
        "bits 0 to 28",
        "bit 29",
        "bits 30 to 63",
        "SipHash-1-3",
        "16,384",
    ] {
        assert!(document.contains(says), "{says:?} is not in docs/formats/hash-table.md");
    }
}

/// A version that is not known is said to be so, and not called damage.
#[test]
fn a_table_of_a_later_version_is_refused() {
    let mut bytes = small().finish().unwrap().bytes().to_vec();
    HashTable::open(Memory(bytes.clone()), 5, UUID).unwrap();
    bytes[12] += 1;
    let damaged = HashTable::open(Memory(bytes.clone()), 5, UUID).unwrap_err();
    assert_eq!(damaged.kind(), ErrorKind::Corruption, "{damaged}");
    let header = 256;
    let crc = slmdb_checksum::crc32c(&bytes[8..header]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    let refused = HashTable::open(Memory(bytes), 5, UUID).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
}
