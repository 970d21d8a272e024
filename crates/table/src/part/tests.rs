use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::testing::config;

const OFFSET: u32 = 123_456;

fn identity() -> Identity {
    Identity::new(*b"0123456789abcdef", 7)
}

fn sealed(content: &[u8], compression: Compression) -> Vec<u8> {
    let mut buffer = b"parts before".to_vec();
    let start = buffer.len();
    buffer.extend_from_slice(content);
    seal(&mut buffer, start, identity(), PartKind::Block, OFFSET, compression, &mut Vec::new());
    buffer.split_off(start)
}

/// A part with a right checksum, whatever else is wrong with it.
fn forged(body: &[u8], stored_as: u8, content_bytes: u32, kind: PartKind) -> Vec<u8> {
    let mut part = body.to_vec();
    part.push(stored_as);
    part.extend_from_slice(&content_bytes.to_le_bytes());
    let checksum = identity().checksum(kind, OFFSET, &part);
    part.extend_from_slice(&checksum.to_le_bytes());
    part
}

fn opened_as(part: &[u8], kind: PartKind) -> Result<Vec<u8>> {
    let lent = open(Stored::Lent(part), identity(), kind, Path::new("7.table"), OFFSET);
    let own = open(Stored::Own(part.into()), identity(), kind, Path::new("7.table"), OFFSET);
    assert_eq!(lent.is_ok(), own.is_ok());
    let lent = lent.map(|content| content.as_slice().to_vec());
    if let (Ok(lent), Ok(own)) = (&lent, own) {
        assert_eq!(lent, own.as_slice());
    }
    lent
}

fn opened(part: &[u8]) -> Result<Vec<u8>> {
    opened_as(part, PartKind::Block)
}

fn assert_corrupt(result: Result<Vec<u8>>) {
    match result {
        Err(Error::Corruption { file, offset, .. }) => {
            assert_eq!((file.as_path(), offset), (Path::new("7.table"), OFFSET.into()));
        }
        other => panic!("no corruption: {other:?}"),
    }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn content_comes_back(content in vec(prop_oneof![Just(0u8), any::<u8>()], 0..2000)) {
        for &compression in Compression::BUILT_IN {
            let part = sealed(&content, compression);
            prop_assert!(part.len() <= content.len() + TRAILER_BYTES);
            prop_assert_eq!(&opened(&part).unwrap(), &content);
        }
    }

    /// The decompressor must not panic, whatever it gets.
    #[test]
    fn wrong_compressed_bytes_are_corrupt(body in vec(prop_oneof![Just(0xffu8), 0..32u8, any::<u8>()], 0..300), content_bytes in 0..5000u32) {
        for stored_as in COMPRESSED {
            if let Ok(content) = opened(&forged(&body, stored_as, content_bytes, PartKind::Block)) {
                prop_assert_eq!(content.len(), content_bytes as usize);
            }
        }
    }

    #[test]
    fn edited_compressed_bytes_are_corrupt_or_content(edits in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let content: Vec<u8> = (0..3000u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        for &compression in &Compression::BUILT_IN[1..] {
            let mut body = sealed(&content, compression);
            body.truncate(body.len() - TRAILER_BYTES);
            for (at, byte) in &edits {
                let at = at.index(body.len());
                body[at] = *byte;
            }
            if let Ok(other) = opened(&forged(&body, StoredAs::Compressed(compression).byte(), content.len() as u32, PartKind::Block)) {
                prop_assert_eq!(other.len(), content.len());
            }
        }
    }
}

#[test]
fn what_does_not_shrink_by_an_eighth_is_stored_as_it_is() {
    let mut noise = vec![0; 4000];
    let mut state = 1u64;
    for byte in &mut noise {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
    for &compression in &Compression::BUILT_IN[1..] {
        let stored_as = |content: &[u8]| {
            let part = sealed(content, compression);
            assert_eq!(opened(&part).unwrap(), content);
            part[part.len() - TRAILER_BYTES]
        };
        let mut content = noise.clone();
        assert_eq!(stored_as(&content), STORED_RAW);
        content[..300].fill(0);
        assert_eq!(stored_as(&content), STORED_RAW, "saves about 7 %");
        content[..800].fill(0);
        assert_eq!(stored_as(&content), StoredAs::Compressed(compression).byte(), "saves about 20 %");
        assert_eq!(stored_as(&[]), STORED_RAW);
    }
}

#[test]
fn very_long_parts_are_not_compressed() {
    for &compression in &Compression::BUILT_IN[1..] {
        let mut content = vec![0; COMPRESSED_PART_MAXIMUM_BYTES];
        assert!(sealed(&content, compression).len() < content.len() / 200);
        content.push(0);
        assert_eq!(sealed(&content, compression).len(), content.len() + TRAILER_BYTES);
    }
}

#[test]
fn every_bit_counts() {
    for &compression in Compression::BUILT_IN {
        let part = sealed(&[5; 100], compression);
        assert_eq!(part.len() < 100, compression != Compression::None);
        for bit in 0..part.len() * 8 {
            let mut part = part.clone();
            part[bit / 8] ^= 1 << (bit % 8);
            assert_corrupt(opened(&part));
        }
        for length in 0..part.len() {
            assert_corrupt(opened(&part[..length]));
            assert_corrupt(opened(&part[part.len() - length..]));
        }
        assert_corrupt(opened(&[part.as_slice(), &[0]].concat()));
    }
}

#[test]
fn a_part_in_anothers_place_is_corrupt() {
    let part = sealed(b"whole bytes", Compression::None);
    let at = |identity, kind, offset| open(Stored::Lent(&part), identity, kind, Path::new("7.table"), offset).is_ok();
    assert!(at(identity(), PartKind::Block, OFFSET));
    assert!(!at(identity(), PartKind::Block, OFFSET + 1));
    assert!(!at(identity(), PartKind::Keys, OFFSET));
    assert!(!at(Identity::new(*b"0123456789abcdef", 8), PartKind::Block, OFFSET));
    assert!(!at(Identity::new(*b"0123456789abcdeF", 7), PartKind::Block, OFFSET));
}

#[test]
fn unknown_compression_is_not_damage() {
    for stored_as in [3, 255] {
        match opened(&forged(b"body", stored_as, 100, PartKind::Block)) {
            Err(Error::Unsupported { what, file: Some(_) }) => {
                assert!(what.contains(&format!("block at {OFFSET}: compression type {stored_as}")), "{what}");
            }
            other => panic!("compression type {stored_as}: {other:?}"),
        }
    }
}

/// A key chunk of keys with a common head, and a content that is none.
#[test]
fn key_chunks_alone_have_shortened_keys() {
    let mut chunk = vec![0; 24];
    for number in 0..100_u8 {
        chunk.extend([100, 1, 2 * 21, 0]);
        chunk.extend([b'k'; 20]);
        chunk.push(number);
    }
    let sealed_as = |content: &[u8], kind, compression| {
        let mut buffer = content.to_vec();
        seal(&mut buffer, 0, identity(), kind, OFFSET, compression, &mut Vec::new());
        assert_eq!(opened_as(&buffer, kind).unwrap(), content);
        buffer[buffer.len() - TRAILER_BYTES]
    };
    assert_eq!(sealed_as(&chunk, PartKind::Keys, Compression::None), STORED_SHORTENED);
    assert_eq!(sealed_as(&chunk, PartKind::Block, Compression::None), STORED_RAW);
    assert_eq!(sealed_as(&chunk[..chunk.len() - 1], PartKind::Keys, Compression::None), STORED_RAW, "cut off");
    let repeated = chunk.repeat(3);
    assert_eq!(sealed_as(&repeated, PartKind::Keys, Compression::Lz4), STORED_LZ4, "smaller so");
    let mut buffer = chunk.clone();
    seal(&mut buffer, 0, identity(), PartKind::Keys, OFFSET, Compression::None, &mut Vec::new());
    let body = &buffer[..buffer.len() - TRAILER_BYTES];
    match opened(&forged(body, STORED_SHORTENED, chunk.len() as u32, PartKind::Block)) {
        Err(Error::Unsupported { what, .. }) => assert!(what.contains("compression type 3"), "{what}"),
        other => panic!("a block with shortened keys: {other:?}"),
    }
    let forged =
        |bytes: usize| opened_as(&forged(body, STORED_SHORTENED, bytes as u32, PartKind::Keys), PartKind::Keys);
    assert_eq!(forged(chunk.len()).unwrap(), chunk);
    for bytes in [chunk.len() - 1, chunk.len() + 1, body.len(), CHUNK_BYTES_AT_MOST + 1] {
        assert_corrupt(forged(bytes));
    }
}

/// What zstd once made of 1,000 times the byte 7.
const COMPRESSED_SEVENS: [u8; 19] = [40, 181, 47, 253, 96, 232, 2, 77, 0, 0, 16, 7, 7, 1, 0, 227, 43, 128, 5];

#[cfg(not(feature = "zstd"))]
#[test]
fn without_zstd_such_a_part_is_not_damage() {
    match opened(&forged(&COMPRESSED_SEVENS, STORED_ZSTD, 1000, PartKind::Block)) {
        Err(Error::Unsupported { what, file: Some(file) }) => {
            assert_eq!(file, Path::new("7.table"));
            assert!(what.starts_with(&format!("block at {OFFSET}: ")) && what.contains("feature `zstd`"), "{what}");
        }
        other => panic!("{other:?}"),
    }
    // Whatever its checksum does not cover is damage here, too.
    let mut damaged = forged(&COMPRESSED_SEVENS, STORED_ZSTD, 1000, PartKind::Block);
    damaged[3] ^= 1;
    assert_corrupt(opened(&damaged));
}

#[cfg(feature = "zstd")]
#[test]
fn zstd_unpacks_what_it_is_given_and_no_more() {
    assert_eq!(opened(&forged(&COMPRESSED_SEVENS, STORED_ZSTD, 1000, PartKind::Block)).unwrap(), [7; 1000]);
    for content_bytes in [COMPRESSED_SEVENS.len() as u32 + 1, 999, 1001, u32::MAX] {
        assert_corrupt(opened(&forged(&COMPRESSED_SEVENS, STORED_ZSTD, content_bytes, PartKind::Block)));
    }
    // Frames that declare 1 GiB of content, and the largest window that there is: nothing is set aside for them.
    for bomb in
        [&[0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x40, 3, 0, 0, 7][..], &[0x28, 0xb5, 0x2f, 0xfd, 0, 0xff, 3, 0, 0, 7]]
    {
        assert_corrupt(opened(&forged(bomb, STORED_ZSTD, 1000, PartKind::Block)));
    }
    for cut in 0..COMPRESSED_SEVENS.len() {
        assert_corrupt(opened(&forged(&COMPRESSED_SEVENS[..cut], STORED_ZSTD, 1000, PartKind::Block)));
    }
}

/// How a part can say that it is compressed.
const COMPRESSED: [u8; 2] = [STORED_LZ4, STORED_ZSTD];

#[test]
fn lengths_that_are_never_written_are_corrupt() {
    assert_corrupt(opened(&forged(b"body", STORED_RAW, 3, PartKind::Block)));
    assert_corrupt(opened(&forged(b"body", STORED_RAW, u32::MAX, PartKind::Block)));
    assert_corrupt(opened(&forged(b"body", STORED_LZ4, u32::MAX, PartKind::Block)));
    assert_corrupt(opened(&forged(b"body", STORED_LZ4, 4, PartKind::Block)));
    // Well-formed, but longer than a part of its kind ever is.
    let mut buffer = vec![0; CHUNK_BYTES_AT_MOST + 1];
    seal(&mut buffer, 0, identity(), PartKind::Keys, OFFSET, Compression::Lz4, &mut Vec::new());
    assert_corrupt(opened_as(&buffer, PartKind::Keys));
}

/// A long row of 0xff is what makes a length counter in the decompressor grow fastest.
#[test]
fn endless_lengths_do_not_overflow() {
    let mut body = vec![0xff; COMPRESSED_PART_MAXIMUM_BYTES - 1];
    assert_corrupt(opened(&forged(&body, STORED_LZ4, COMPRESSED_PART_MAXIMUM_BYTES as u32, PartKind::Block)));
    body.insert(0, 0x0f);
    body.truncate(COMPRESSED_PART_MAXIMUM_BYTES - 1);
    assert_corrupt(opened(&forged(&body, STORED_LZ4, COMPRESSED_PART_MAXIMUM_BYTES as u32, PartKind::Block)));
}
