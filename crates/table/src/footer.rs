//! The footer: the last 80 bytes of a table file. It says what the file is and where its other parts are.
//!
//! ```text
//! 0   bytes   UUID of the store (16 bytes)
//! 16  u32     number of the file
//! 20  u32     optional parts: 0, or 1: index chunks in place of a key section
//! 24  u64     offset of the key section or the index: where the blocks end
//! 32  u64     length of the key section or the index
//! 40  u64     offset of the properties
//! 48  u64     length of the properties, trailer included
//! 56  u64     length of the file
//! 64  u32     format version: 1
//! 68  u32     CRC-32C of bytes 0 to 67 and 72 to 79
//! 72  bytes   magic: "slmdbSST"
//! ```
//!
//! The file's length is in it, so that a file that was cut or has grown is found out even if what now lies at its end is
//! a footer. Later versions may give bytes 0 to 63 another meaning, but the last 16 and what their checksum covers stay:
//! so a version is believed only when the checksum is right, and an unknown one can be told from damage. An optional part that
//! is not known is [`Error::Unsupported`]: the file can't be read without it.

use std::path::Path;

use slmdb_env::{Error, Result};

use crate::codec::{get_array, get_u32, get_u64};
use crate::options::MAXIMUM_FILE_BYTES;
use crate::part::TRAILER_BYTES;
use crate::single;

/// The version of the table file format that this crate writes, and the only one that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// The bit of the optional parts that says that there are index chunks in place of a key section.
pub(crate) const HAS_INDEX: u32 = 1;

/// Length of the footer.
pub(crate) const FOOTER_BYTES: usize = 80;

const MAGIC: [u8; 8] = *b"slmdbSST";
const CHECKSUM_AT: usize = 68;
const MAGIC_AT: usize = 72;

const _: () =
    assert!(FOOTER_BYTES == 16 + 2 * size_of::<u32>() + 5 * size_of::<u64>() + 2 * size_of::<u32>() + MAGIC.len());
const _: () = assert!(MAGIC_AT == FOOTER_BYTES - MAGIC.len() && CHECKSUM_AT == MAGIC_AT - size_of::<u32>());

/// What the footer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) store_uuid: [u8; 16],
    pub(crate) number: u32,
    pub(crate) key_section_offset: u64,
    pub(crate) key_section_bytes: u64,
    pub(crate) properties_offset: u64,
    pub(crate) properties_bytes: u64,
    pub(crate) file_bytes: u64,
    /// Which optional parts the file has.
    pub(crate) optional_parts: u32,
}

impl Footer {
    /// Whether the file is searched by key: it has index chunks and no key section.
    pub(crate) fn has_index(&self) -> bool {
        self.optional_parts & HAS_INDEX != 0
    }

    pub(crate) fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = Vec::with_capacity(FOOTER_BYTES);
        bytes.extend_from_slice(&self.store_uuid);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.optional_parts.to_le_bytes());
        let places = [
            self.key_section_offset,
            self.key_section_bytes,
            self.properties_offset,
            self.properties_bytes,
            self.file_bytes,
        ];
        for place in places {
            bytes.extend_from_slice(&place.to_le_bytes());
        }
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&MAGIC);
        let mut footer = [0; FOOTER_BYTES];
        footer.copy_from_slice(&bytes);
        let checksum = checksum(&footer);
        footer[CHECKSUM_AT..MAGIC_AT].copy_from_slice(&checksum.to_le_bytes());
        footer
    }

    /// Checks the last bytes of the file at `path`, which is `file_bytes` long, and that they belong to this file of this
    /// store. Afterwards its parts are known to follow one another without gaps, up to the footer.
    pub(crate) fn decode(
        bytes: &[u8; FOOTER_BYTES],
        path: &Path,
        file_bytes: u64,
        number: u32,
        store_uuid: [u8; 16],
    ) -> Result<Footer> {
        let offset = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        let corrupt = |what: &str| Error::corruption(path, offset, format!("footer: {what}"));
        if bytes[MAGIC_AT..] != MAGIC {
            return Err(corrupt("not the end of a table file"));
        }
        let fields = Footer::decode_fields(bytes).ok_or_else(|| corrupt("cut off"))?;
        let (footer, version, stored_checksum) = fields;
        if stored_checksum != checksum(bytes) {
            return Err(corrupt("its checksum does not match"));
        }
        if version != FORMAT_VERSION {
            let what = format!("table file format {version}: this build reads format {FORMAT_VERSION}");
            return Err(Error::Unsupported { what, file: Some(path.to_path_buf()) });
        }
        if footer.store_uuid != store_uuid {
            return Err(corrupt("the file belongs to another store"));
        }
        if footer.number != number {
            return Err(corrupt(&format!("this is table file {}, not {number}", footer.number)));
        }
        if footer.optional_parts & !HAS_INDEX != 0 {
            let what = format!("optional parts {:#x} of a table file: not known to this build", footer.optional_parts);
            return Err(Error::Unsupported { what, file: Some(path.to_path_buf()) });
        }
        if footer.file_bytes != file_bytes {
            return Err(corrupt(&format!("the file is {file_bytes} bytes long, not {}", footer.file_bytes)));
        }
        if !footer.is_seamless() {
            return Err(corrupt("the parts do not follow one another"));
        }
        Ok(footer)
    }

    /// The fields, then the format version and the checksum.
    fn decode_fields(bytes: &[u8; FOOTER_BYTES]) -> Option<(Footer, u32, u32)> {
        let mut at = 0;
        let store_uuid = get_array(bytes, &mut at)?;
        let number = get_u32(bytes, &mut at)?;
        let optional_parts = get_u32(bytes, &mut at)?;
        let footer = Footer {
            store_uuid,
            number,
            key_section_offset: get_u64(bytes, &mut at)?,
            key_section_bytes: get_u64(bytes, &mut at)?,
            properties_offset: get_u64(bytes, &mut at)?,
            properties_bytes: get_u64(bytes, &mut at)?,
            file_bytes: get_u64(bytes, &mut at)?,
            optional_parts,
        };
        Some((footer, get_u32(bytes, &mut at)?, get_u32(bytes, &mut at)?))
    }

    fn is_seamless(&self) -> bool {
        const SHORTEST: u64 = TRAILER_BYTES as u64;
        let keys_end = self.key_section_offset.checked_add(self.key_section_bytes);
        let properties_end = self.properties_offset.checked_add(self.properties_bytes);
        let footer_end = properties_end.and_then(|end| end.checked_add(FOOTER_BYTES as u64));
        keys_end == Some(self.properties_offset)
            && footer_end == Some(self.file_bytes)
            && self.file_bytes <= MAXIMUM_FILE_BYTES
            && self.key_section_offset >= single::SHORTEST_BYTES as u64
            && self.key_section_bytes > SHORTEST
            && self.properties_bytes > SHORTEST
    }
}

fn checksum(footer: &[u8; FOOTER_BYTES]) -> u32 {
    slmdb_checksum::crc32c_append(slmdb_checksum::crc32c(&footer[..CHECKSUM_AT]), &footer[MAGIC_AT..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOOTER: Footer = Footer {
        store_uuid: *b"0123456789abcdef",
        number: 7,
        key_section_offset: 1000,
        key_section_bytes: 200,
        properties_offset: 1200,
        properties_bytes: 100,
        file_bytes: 1380,
        optional_parts: 0,
    };

    fn decode(bytes: &[u8; FOOTER_BYTES]) -> Result<Footer> {
        Footer::decode(bytes, Path::new("t"), 1380, 7, FOOTER.store_uuid)
    }

    /// Encodes with a right checksum whatever the fields say.
    fn encode_with(change: impl Fn(&mut [u8; FOOTER_BYTES])) -> [u8; FOOTER_BYTES] {
        let mut bytes = FOOTER.encode();
        change(&mut bytes);
        let checksum = checksum(&bytes);
        bytes[CHECKSUM_AT..MAGIC_AT].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn says(result: Result<Footer>, expected: &str) {
        let said = result.expect_err(expected).to_string();
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn it_comes_back() {
        assert_eq!(decode(&FOOTER.encode()).unwrap(), FOOTER);
    }

    #[test]
    fn every_bit_counts() {
        for bit in 0..FOOTER_BYTES * 8 {
            let mut bytes = FOOTER.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = decode(&bytes).expect_err("a flipped bit");
            assert!(matches!(error, Error::Corruption { offset: 1300, .. }), "bit {bit}: {error}");
        }
    }

    #[test]
    fn another_version_is_not_damage() {
        for version in [0, FORMAT_VERSION as u8 + 1] {
            let unknown = encode_with(|bytes| bytes[64] = version);
            assert!(matches!(decode(&unknown), Err(Error::Unsupported { .. })));
        }
    }

    #[test]
    fn what_does_not_belong_here_is_refused() {
        let bytes = FOOTER.encode();
        let path = Path::new("t");
        says(Footer::decode(&bytes, path, 1380, 8, FOOTER.store_uuid), "table file 7, not 8");
        says(Footer::decode(&bytes, path, 1380, 7, [0; 16]), "another store");
        says(Footer::decode(&bytes, path, 1381, 7, FOOTER.store_uuid), "1381 bytes long, not 1380");
    }

    #[test]
    fn optional_parts_that_are_not_known_are_unsupported() {
        let with_index = encode_with(|bytes| bytes[20] = HAS_INDEX as u8);
        assert!(decode(&with_index).unwrap().has_index() && !FOOTER.has_index());
        for bit in 1..32 {
            let unknown = encode_with(|bytes| bytes[20 + bit / 8] |= 1 << (bit % 8));
            assert!(matches!(decode(&unknown), Err(Error::Unsupported { .. })), "bit {bit}");
        }
    }

    #[test]
    fn places_that_overflow_or_leave_gaps_are_refused() {
        for at in (24..64).step_by(8) {
            for wrong in [0, 1, 9, 1201, u64::MAX, u64::MAX - 79] {
                let bytes = encode_with(|bytes| bytes[at..at + 8].copy_from_slice(&wrong.to_le_bytes()));
                assert!(decode(&bytes).is_err(), "{wrong} at {at}");
            }
        }
    }
}
