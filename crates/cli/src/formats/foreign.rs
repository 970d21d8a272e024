//! Files that `import` is given by mistake, told by how they begin. No export begins so: what is written here as bytes
//! below 0x20 or above 0x7f is escaped there.

use std::io::{self, Read};

use super::format::ImportFormat;
use super::lines::BYTE_ORDER_MARK;

/// How a kind of file begins, its name, and what makes an input of it.
struct Signature {
    start: &'static [u8],
    /// What is read before it is certain.
    wanted_bytes: usize,
    foreign: Foreign,
}

/// Something that `import` does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreign {
    /// What it is.
    pub name: &'static str,
    /// What makes an input of it.
    pub remedy: &'static str,
}

const fn signature(start: &'static [u8], name: &'static str, remedy: &'static str) -> Signature {
    Signature { start, wanted_bytes: start.len(), foreign: Foreign { name, remedy } }
}

const CONVERT: &str = "convert it to UTF-8, e.g. with iconv";
const TAKE_OUT: &str = "take out the file that is wanted first";
const EXPORT: &str = "have its own program export it as JSON Lines first";
const BZIP2: &str = "bzip2";

/// Of two that begin alike the longer one comes first.
const SIGNATURES: [Signature; 18] = [
    signature(b"\xff\xfe\0\0", "UTF-32", CONVERT),
    signature(b"\0\0\xfe\xff", "UTF-32", CONVERT),
    signature(b"\xff\xfe", "UTF-16", CONVERT),
    signature(b"\xfe\xff", "UTF-16", CONVERT),
    signature(b"\x1f\x8b", "gzip", "unpack it: zcat FILE | slmdb import … -"),
    signature(b"\x1f\x9d", "compress", "unpack it: zcat FILE | slmdb import … -"),
    signature(b"\x28\xb5\x2f\xfd", "zstd", "unpack it: zstdcat FILE | slmdb import … -"),
    signature(b"\xfd7zXZ\0", "xz", "unpack it: xzcat FILE | slmdb import … -"),
    Signature {
        start: b"BZh",
        wanted_bytes: 15,
        foreign: Foreign { name: BZIP2, remedy: "unpack it: bzcat FILE | slmdb import … -" },
    },
    signature(b"\x04\"M\x18", "LZ4", "unpack it: lz4cat FILE | slmdb import … -"),
    signature(b"\x02\x21L\x18", "LZ4", "unpack it: lz4cat FILE | slmdb import … -"),
    signature(b"\x89LZO\0", "lzop", "unpack it: lzop -dc FILE | slmdb import … -"),
    signature(b"PK\x03\x04", "a ZIP archive", TAKE_OUT),
    signature(b"PK\x05\x06", "an empty ZIP archive", TAKE_OUT),
    signature(b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", TAKE_OUT),
    signature(b"SQLite format 3\0", "an SQLite database", EXPORT),
    signature(b"PAR1\x15", "Parquet", EXPORT),
    signature(b"Obj\x01", "Avro", EXPORT),
];

const JSON_ARRAY: Foreign =
    Foreign { name: "a JSON array", remedy: "one object a line is wanted: jq -c '.[]' FILE | slmdb import … -" };

/// How much white space in front of a JSON array is looked through.
const MAXIMUM_HEAD_BYTES: usize = 64 << 10;

/// Reads what [`recognize`] needs, and waits for no more of `input` than that.
pub fn read_head(input: &mut dyn Read, format: ImportFormat) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut part = [0; 4096];
    while may_be_foreign(&head, format) {
        match input.read(&mut part) {
            Ok(0) => break,
            Ok(bytes) => head.extend_from_slice(&part[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}

/// Whether an input that begins so is something that `import` does not read, though it is taken for `format`.
pub fn recognize(head: &[u8], format: ImportFormat) -> Option<Foreign> {
    if format == ImportFormat::Jsonl && text(head).first() == Some(&b'[') {
        return Some(JSON_ARRAY);
    }
    let found = SIGNATURES.iter().find(|signature| head.starts_with(signature.start))?.foreign;
    (found.name != BZIP2 || is_bzip2(head)).then_some(found)
}

/// Whether more bytes behind `head` could make it something foreign.
fn may_be_foreign(head: &[u8], format: ImportFormat) -> bool {
    let begins = |signature: &Signature| {
        let length = head.len().min(signature.start.len());
        head[..length] == signature.start[..length] && head.len() < signature.wanted_bytes
    };
    let may_be_array = format == ImportFormat::Jsonl
        && (BYTE_ORDER_MARK.starts_with(head) || text(head).is_empty())
        && head.len() < MAXIMUM_HEAD_BYTES;
    may_be_array || SIGNATURES.iter().any(begins)
}

/// Its first letters may begin a text. A block's number and a byte that is small in every file tell.
fn is_bzip2(head: &[u8]) -> bool {
    head.get(4..10) == Some(b"1AY&SY") && head.get(14).is_some_and(|byte| *byte < 8)
}

/// `head` without a mark and white space in front.
fn text(head: &[u8]) -> &[u8] {
    head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head).trim_ascii_start()
}
