//! Payloads and record headers alone.

use super::*;

fn entries(payload: &Payload) -> Vec<(PayloadKind, Vec<u8>, Vec<u8>)> {
    payload.iter().map(|entry| (entry.kind, entry.key.to_vec(), entry.value.to_vec())).collect()
}

#[test]
fn a_payload_gives_back_what_was_appended() {
    let mut payload = Payload::new();
    assert!(payload.is_empty() && payload.iter().next().is_none());
    let long_key = vec![0xff; MAXIMUM_KEY_BYTES];
    payload.put(b"", b"").unwrap();
    payload.put(&long_key, b"value").unwrap();
    payload.delete(b"key").unwrap();
    payload.put(b"key", &[7; 100_000]).unwrap();
    let expected = vec![
        (PayloadKind::Put, vec![], vec![]),
        (PayloadKind::Put, long_key, b"value".to_vec()),
        (PayloadKind::Delete, b"key".to_vec(), vec![]),
        (PayloadKind::Put, b"key".to_vec(), vec![7; 100_000]),
    ];
    assert_eq!(entries(&payload), expected);
    assert_eq!(payload.count(), 4);
    assert_eq!(payload.len_bytes(), 4 * 7 + 65_535 + 5 + 3 + 3 + 100_000);
    assert_eq!(payload.crc(), slmdb_checksum::crc32c(payload.as_bytes()));
    let adopted = Payload::from_bytes(payload.as_bytes().to_vec()).unwrap();
    assert_eq!(adopted, payload);
    payload.clear();
    assert_eq!(payload, Payload::new());
}

#[test]
fn the_void_twin_has_the_same_lengths_and_its_own_crc() {
    let mut payload = Payload::new();
    payload.put(b"key", b"value").unwrap();
    payload.put(b"", &[3; 300]).unwrap();
    payload.delete(b"gone").unwrap();
    let void = payload.clone().void();
    assert_eq!((void.len_bytes(), void.count()), (payload.len_bytes(), payload.count()));
    assert_eq!(void.crc(), slmdb_checksum::crc32c(void.as_bytes()));
    assert_ne!(void.crc(), payload.crc());
    for (was, is) in payload.iter().zip(&void) {
        assert_eq!((is.kind, is.key, is.value), (PayloadKind::Void, was.key, was.value));
    }
    assert_eq!(Payload::from_bytes(void.as_bytes().to_vec()).unwrap(), void);
    assert_eq!(void.clone().void(), void);
    assert_eq!(Payload::new().void(), Payload::new());
}

#[test]
fn beyond_a_limit_nothing_is_appended() {
    let mut payload = Payload::new();
    payload.put(b"key", b"value").unwrap();
    let before = payload.clone();
    let refused = |result: Result<()>| matches!(result, Err(Error::Invalid { .. }));
    assert!(refused(payload.put(&[0; MAXIMUM_KEY_BYTES + 1], b"")));
    assert!(refused(payload.delete(&[0; MAXIMUM_KEY_BYTES + 1])));
    assert!(refused(payload.put(b"", &vec![0; MAXIMUM_VALUE_BYTES + 1])));
    assert_eq!(payload, before);

    // Pages of zeros that nobody touches are not there.
    let mut bytes = vec![0; MAXIMUM_BATCH_BYTES as usize];
    bytes.truncate(MAXIMUM_BATCH_BYTES as usize - 20);
    let mut payload = Payload { bytes, count: 1, crc: 0 };
    assert!(refused(payload.put(b"k", &[1; 13])));
    assert_eq!((payload.len_bytes(), payload.count(), payload.crc()), (MAXIMUM_BATCH_BYTES - 20, 1, 0));
    payload.put(b"k", &[1; 12]).unwrap();
    assert!(refused(payload.delete(b"")));
    assert_eq!(payload.len_bytes(), MAXIMUM_BATCH_BYTES);
    assert!(refused(Payload::from_bytes(vec![0; MAXIMUM_BATCH_BYTES as usize + 1]).map(drop)));
}

#[test]
fn adopted_bytes_are_entries_or_refused() {
    let mut random = 20_190_225_u64;
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    let (mut adopted, mut refused, mut ranges) = (0, 0, 0);
    for _ in 0..200_000 {
        // Mostly what kinds and short lengths look like.
        let bytes: Vec<u8> =
            (0..below(40)).map(|_| [0, 0, 0, 0, 1, 2, 3, 4, below(256) as u8][below(9) as usize]).collect();
        match Payload::from_bytes(bytes.clone()) {
            Ok(payload) => {
                let mut again = Payload::new();
                for entry in &payload {
                    match entry.kind {
                        PayloadKind::Delete => again.delete(entry.key).unwrap(),
                        PayloadKind::Put => again.put(entry.key, entry.value).unwrap(),
                        PayloadKind::Void => {
                            let mut void = Payload::new();
                            void.put(entry.key, entry.value).unwrap();
                            let both = [again.as_bytes(), void.void().as_bytes()].concat();
                            again = Payload::from_bytes(both).unwrap();
                        }
                        PayloadKind::DeleteRange => {
                            ranges += 1;
                            let mut with_void = Payload::new();
                            with_void.delete_range(entry.deleted_range().unwrap()).unwrap();
                            let alone = &with_void.as_bytes()[ENTRY_HEADER_BYTES..];
                            again = Payload::from_bytes([again.as_bytes(), alone].concat()).unwrap();
                        }
                    }
                }
                assert_eq!(again.as_bytes(), &bytes[..]);
                assert_eq!(again, payload);
                adopted += u32::from(!bytes.is_empty());
            }
            Err(error) => {
                assert!(matches!(error, Error::Invalid { .. }), "{error}");
                refused += 1;
            }
        }
    }
    assert!(adopted > 50 && refused > 50 && ranges > 5, "{adopted} adopted, {refused} refused, {ranges} ranges");
}

const PLAIN: RecordForm = RecordForm::Plain;

const HEADER: RecordHeader = RecordHeader {
    payload_crc: 0x0102_0304,
    payload_length: 28,
    entry_count: 4,
    first_sequence: 1 << 40,
    known_safe_sequence: 99,
};

/// A header is good for one generation of one store and no bit of it can change.
#[test]
fn a_header_is_good_for_one_generation_of_one_store() {
    let (uuid, seed) = ([9; 16], crc_seed(3, &[9; 16], PLAIN));
    let bytes = HEADER.encode(seed);
    assert_eq!(RecordHeader::read(&bytes), HEADER);
    assert!(RecordHeader::crc_matches(&bytes, seed));
    assert!(!RecordHeader::crc_matches(&bytes, crc_seed(4, &uuid, PLAIN)));
    assert!(!RecordHeader::crc_matches(&bytes, crc_seed(3, &[8; 16], PLAIN)));
    assert!(!RecordHeader::crc_matches(&bytes, crc_seed(3, &uuid, RecordForm::WithSlots)));
    for bit in 0..8 * bytes.len() {
        let mut changed = bytes;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(!RecordHeader::crc_matches(&changed, seed), "bit {bit}");
    }
}

#[test]
fn fields_are_possible_up_to_their_limits() {
    let fault = |change: &dyn Fn(&mut RecordHeader), room_bytes| {
        let mut header = HEADER;
        change(&mut header);
        header.fault(room_bytes, PLAIN).is_some()
    };
    let largest = MAXIMUM_BATCH_BYTES as u32;
    assert!(!fault(&|_| (), 60) && fault(&|_| (), 59));
    assert!(!fault(&|h| h.payload_length = largest, u64::MAX) && fault(&|h| h.payload_length = largest + 1, u64::MAX));
    assert!(!fault(&|h| h.entry_count = 1, 60) && fault(&|h| h.entry_count = 0, 60));
    assert!(fault(&|h| h.entry_count = 5, 60) && fault(&|h| h.entry_count = u32::MAX, u64::MAX));
    assert!(!fault(&|h| h.first_sequence = u64::MAX - 4, 60) && fault(&|h| h.first_sequence = u64::MAX - 3, 60));
    assert!(fault(&|h| (h.first_sequence, h.known_safe_sequence) = (0, 0), 60));
    assert!(!fault(&|h| h.known_safe_sequence = (1 << 40) - 1, 60) && fault(&|h| h.known_safe_sequence = 1 << 40, 60));
    assert_eq!(HEADER.last_sequence(), (1 << 40) + 3);
    assert_eq!(HEADER.record_bytes(PLAIN), 64);
    // With four slots in between.
    assert!(HEADER.fault(124, RecordForm::WithSlots).is_none() && HEADER.fault(123, RecordForm::WithSlots).is_some());
    assert_eq!(HEADER.record_bytes(RecordForm::WithSlots), 128);
}

#[test]
fn records_are_padded_to_eight_bytes() {
    for (payload_bytes, record) in [(0, 32), (1, 40), (7, 40), (8, 40), (9, 48), (MAXIMUM_BATCH_BYTES, (1 << 30) + 32)]
    {
        assert_eq!(PLAIN.space_for(payload_bytes, 1), record);
        assert_eq!(RecordForm::WithSlots.space_for(payload_bytes, 3), record + 48);
    }
    // Nonsense stays huge instead of wrapping round.
    assert!(PLAIN.space_for(u64::MAX, 1) > 1 << 62);
}
