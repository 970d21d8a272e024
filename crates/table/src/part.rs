//! Parts: what a table file is made of. Data blocks, key chunks and properties are stored the same way: their bytes,
//! perhaps compressed, and a trailer of 9 bytes.
//!
//! ```text
//! offset from the end   bytes
//!                  -9   1      compression: 0 none, 1 LZ4 (block format), 2 zstd (one frame), 3 shortened keys
//!                  -8   4      length before compression, little endian
//!                  -4   4      CRC-32C
//! ```
//!
//! The checksum covers, in this order: the store's UUID (16 bytes), the file number (u32), the part's kind (u8) and
//! offset (u32), which are not stored with the part; then its stored bytes, compression and length. So a block that a
//! disk, a file system or a backup puts in another's place fails, though its bytes are whole.
//!
//! A checksum is no seal against intent: whoever knows the UUID can make a part that has the right one. So what follows
//! the check is careful, too. In particular only parts up to [`COMPRESSED_PART_MAXIMUM_BYTES`] are compressed, which
//! bounds what a small file can make a reader allocate. (It also keeps the length counters of an LZ4 decoder, which are
//! 32 bits wide and grow by 255 a byte, from running over.)

use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Error, File, Result};

use crate::compression::{self, Compression};
use crate::key_chunk_sizes::CHUNK_BYTES_AT_MOST;
use crate::key_section::shortened;

/// The longest part that is compressed, in bytes before compression: 16 MiB.
pub const COMPRESSED_PART_MAXIMUM_BYTES: usize = 16 << 20;

/// What a part's trailer takes.
pub(crate) const TRAILER_BYTES: usize = 9;

const STORED_RAW: u8 = 0;
const STORED_LZ4: u8 = 1;
const STORED_ZSTD: u8 = 2;
const STORED_SHORTENED: u8 = 3;

/// How a part is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoredAs {
    Compressed(Compression),
    /// With shortened keys: key chunks alone.
    Shortened,
}

impl StoredAs {
    const RAW: StoredAs = StoredAs::Compressed(Compression::None);

    /// What the trailer says.
    fn byte(self) -> u8 {
        match self {
            StoredAs::Compressed(Compression::None) => STORED_RAW,
            StoredAs::Compressed(Compression::Lz4) => STORED_LZ4,
            StoredAs::Compressed(Compression::Zstd) => STORED_ZSTD,
            StoredAs::Shortened => STORED_SHORTENED,
        }
    }

    /// `None`: no part of this kind is ever stored so.
    fn of_byte(byte: u8, kind: PartKind) -> Option<StoredAs> {
        match byte {
            STORED_RAW => Some(StoredAs::RAW),
            STORED_LZ4 => Some(StoredAs::Compressed(Compression::Lz4)),
            STORED_ZSTD => Some(StoredAs::Compressed(Compression::Zstd)),
            STORED_SHORTENED if kind == PartKind::Keys => Some(StoredAs::Shortened),
            _ => None,
        }
    }
}

const _: () = assert!(TRAILER_BYTES == size_of::<u8>() + size_of::<u32>() + size_of::<u32>());
const _: () = assert!(CHUNK_BYTES_AT_MOST <= COMPRESSED_PART_MAXIMUM_BYTES);
const _: () = assert!(COMPRESSED_PART_MAXIMUM_BYTES as u64 * 255 < u32::MAX as u64);

/// What a part is, as its checksum knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartKind {
    Block = 1,
    Keys = 2,
    Properties = 3,
    /// Of an index checkpoint.
    CheckpointKeys = 4,
    /// Of an index checkpoint.
    CheckpointSummary = 5,
    /// An entry by itself (module `single`).
    Entry = 6,
    /// Of a file that is searched by key.
    IndexChunk = 7,
    /// Of a file that is searched by key.
    IndexTop = 8,
}

impl PartKind {
    /// The longest content that a compressed part of this kind is unpacked to, in bytes.
    fn unpacked_bytes_at_most(self) -> usize {
        match self {
            PartKind::Keys | PartKind::CheckpointKeys => CHUNK_BYTES_AT_MOST,
            PartKind::Block | PartKind::Properties | PartKind::CheckpointSummary => COMPRESSED_PART_MAXIMUM_BYTES,
            PartKind::Entry | PartKind::IndexChunk | PartKind::IndexTop => 0,
        }
    }

    fn name(self) -> &'static str {
        match self {
            PartKind::Block => "block",
            PartKind::Keys => "key chunk",
            PartKind::Properties => "properties",
            PartKind::CheckpointKeys => "checkpoint chunk",
            PartKind::CheckpointSummary => "checkpoint summary",
            PartKind::Entry => "entry",
            PartKind::IndexChunk => "index chunk",
            PartKind::IndexTop => "index top",
        }
    }
}

/// Which file of which store: the head of every part's checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    seed: u32,
}

impl Identity {
    pub(crate) fn new(store_uuid: [u8; 16], number: u32) -> Identity {
        Identity { seed: slmdb_checksum::crc32c_append(slmdb_checksum::crc32c(&store_uuid), &number.to_le_bytes()) }
    }

    /// The checksum of `covered`: a part without its last four bytes.
    #[inline]
    pub(crate) fn checksum(self, kind: PartKind, offset: u32, covered: &[u8]) -> u32 {
        let mut head = [kind as u8, 0, 0, 0, 0];
        head[1..].copy_from_slice(&offset.to_le_bytes());
        slmdb_checksum::crc32c_append(slmdb_checksum::crc32c_append(self.seed, &head), covered)
    }
}

/// Turns `buffer[start..]` into a stored part: makes it smaller if that pays, and appends the trailer. `scratch` is kept between
/// calls.
pub(crate) fn seal(
    buffer: &mut Vec<u8>,
    start: usize,
    identity: Identity,
    kind: PartKind,
    offset: u32,
    compression: Compression,
    scratch: &mut Vec<u8>,
) {
    let as_it_is = Body { stored_as: StoredAs::RAW, content_bytes: buffer.len() - start };
    let body = match kind {
        PartKind::Keys => compress_keys(buffer, start, compression, scratch),
        _ => compress(buffer, start, compression, scratch),
    };
    end(buffer, start, identity, kind, offset, body.unwrap_or(as_it_is));
}

/// How a part's content is stored.
pub(crate) struct Body {
    stored_as: StoredAs,
    content_bytes: usize,
}

/// Compresses `buffer[start..]` if that makes it smaller by an eighth at least. `None`: it doesn't, and nothing has changed.
pub(crate) fn compress(
    buffer: &mut Vec<u8>,
    start: usize,
    compression: Compression,
    scratch: &mut Vec<u8>,
) -> Option<Body> {
    let compressed = compressed(&buffer[start..], compression, scratch)?;
    replace(buffer, start, StoredAs::Compressed(compression), compressed)
}

/// The same for a key chunk: compresses it, or shortens its keys, whichever makes it smaller.
fn compress_keys(buffer: &mut Vec<u8>, start: usize, compression: Compression, scratch: &mut Vec<u8>) -> Option<Body> {
    let content = &buffer[start..];
    let mut keys = Vec::with_capacity(content.len() / 2);
    let keys = shortened::shorten(content, &mut keys).map(|()| &keys[..]);
    let compressed = compressed(content, compression, scratch);
    match (keys, compressed) {
        (Some(keys), Some(compressed)) if keys.len() > compressed.len() => {
            replace(buffer, start, StoredAs::Compressed(compression), compressed)
        }
        (Some(keys), _) => replace(buffer, start, StoredAs::Shortened, keys),
        (None, compressed) => replace(buffer, start, StoredAs::Compressed(compression), compressed?),
    }
}

/// A content compressed in `scratch`. `None`: what can't be compressed, or is not to be, is stored as it is.
fn compressed<'s>(content: &[u8], compression: Compression, scratch: &'s mut Vec<u8>) -> Option<&'s [u8]> {
    if content.len() > COMPRESSED_PART_MAXIMUM_BYTES {
        return None;
    }
    let compressed_bytes = compression::compress(compression, content, scratch)?;
    Some(&scratch[..compressed_bytes])
}

/// Puts what is to be stored in the place of `buffer[start..]` if it is smaller by an eighth at least.
fn replace(buffer: &mut Vec<u8>, start: usize, stored_as: StoredAs, stored: &[u8]) -> Option<Body> {
    let content_bytes = buffer.len() - start;
    if stored.len() > content_bytes - content_bytes.div_ceil(8) {
        return None;
    }
    buffer.truncate(start);
    buffer.extend_from_slice(stored);
    Some(Body { stored_as, content_bytes })
}

/// Appends the trailer of a part that is stored as `body` says.
pub(crate) fn end(buffer: &mut Vec<u8>, start: usize, identity: Identity, kind: PartKind, offset: u32, body: Body) {
    buffer.push(body.stored_as.byte());
    buffer.extend_from_slice(&(body.content_bytes as u32).to_le_bytes());
    let checksum = identity.checksum(kind, offset, &buffer[start..]);
    buffer.extend_from_slice(&checksum.to_le_bytes());
}

/// A part's content as it was before [`seal`]: the first `length` of `bytes`.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) length: usize,
    pub(crate) was_compressed: bool,
}

impl Content {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Bytes of a stored part: in a buffer of their own that can be kept, or in one that serves others, too.
pub(crate) enum Stored<'a> {
    Own(Arc<[u8]>),
    Lent(&'a [u8]),
}

impl Stored<'_> {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Stored::Own(bytes) => bytes,
            Stored::Lent(bytes) => bytes,
        }
    }

    /// The bytes in a buffer that can be kept.
    pub(crate) fn into_shared(self) -> Arc<[u8]> {
        match self {
            Stored::Own(bytes) => bytes,
            Stored::Lent(bytes) => Arc::from(bytes),
        }
    }
}

/// Checks a part and undoes its compression. `path` and `offset` say where it was read.
pub(crate) fn open(
    stored: Stored<'_>,
    identity: Identity,
    kind: PartKind,
    path: &Path,
    offset: u32,
) -> Result<Content> {
    open_numbered(stored, identity, kind, path, offset, offset.into())
}

/// As [`open`], for a part whose checksum covers `number` where other parts have their offset.
pub(crate) fn open_numbered(
    stored: Stored<'_>,
    identity: Identity,
    kind: PartKind,
    path: &Path,
    number: u32,
    offset: u64,
) -> Result<Content> {
    let part = check(stored.as_slice(), identity, kind, path, number, offset)?;
    if part.is_compressed() {
        return part.unpack(kind, path, offset);
    }
    let length = part.body.len();
    Ok(Content { bytes: stored.into_shared(), length, was_compressed: false })
}

/// A part whose checksum was right.
pub(crate) struct Checked<'a> {
    /// Its bytes without the trailer; the content itself, if it is not compressed.
    pub(crate) body: &'a [u8],
    stored_as: StoredAs,
    content_bytes: usize,
}

/// Checks a part as it is stored. `number` is what its checksum covers where most parts have their offset.
pub(crate) fn check<'a>(
    bytes: &'a [u8],
    identity: Identity,
    kind: PartKind,
    path: &Path,
    number: u32,
    offset: u64,
) -> Result<Checked<'a>> {
    let corrupt = |what: &str| corrupt(kind, path, offset, what);
    let unsupported = |what: String| Error::Unsupported {
        what: format!("{} at {offset}: {what}", kind.name()),
        file: Some(path.to_path_buf()),
    };
    let too_short = || corrupt("too short for its trailer");
    let (covered, checksum) = bytes.split_last_chunk::<4>().ok_or_else(too_short)?;
    let (body, content_bytes) = covered.split_last_chunk::<4>().ok_or_else(too_short)?;
    let (&stored_as, body) = body.split_last().ok_or_else(too_short)?;
    if identity.checksum(kind, number, covered) != u32::from_le_bytes(*checksum) {
        return Err(corrupt("its checksum does not match"));
    }
    let content_bytes = u32::from_le_bytes(*content_bytes) as usize;
    let unknown = || unsupported(format!("compression type {stored_as} is not known"));
    match StoredAs::of_byte(stored_as, kind).ok_or_else(unknown)? {
        StoredAs::RAW if content_bytes == body.len() => Ok(Checked { body, stored_as: StoredAs::RAW, content_bytes }),
        StoredAs::RAW => Err(corrupt("not as long as its trailer says")),
        StoredAs::Compressed(compression) if compression.check().is_err() => {
            Err(unsupported(format!("compression type {stored_as}, {}", compression::without_feature())))
        }
        _ if content_bytes > kind.unpacked_bytes_at_most() || body.len() >= content_bytes => {
            Err(corrupt("no such compressed part is ever written"))
        }
        stored_as => Ok(Checked { body, stored_as, content_bytes }),
    }
}

impl Checked<'_> {
    pub(crate) fn is_compressed(&self) -> bool {
        self.stored_as != StoredAs::RAW
    }

    /// The content, in memory of its own.
    pub(crate) fn unpack(&self, kind: PartKind, path: &Path, offset: u64) -> Result<Content> {
        if !self.is_compressed() {
            let bytes = Arc::from(self.body);
            return Ok(Content { bytes, length: self.body.len(), was_compressed: false });
        }
        let bytes = match self.stored_as {
            StoredAs::Compressed(compression) => self.decompress(compression),
            StoredAs::Shortened => shortened::expand(self.body, self.content_bytes).map(Arc::from),
        };
        let bytes = bytes.ok_or_else(|| corrupt(kind, path, offset, "its compressed bytes are wrong"))?;
        Ok(Content { bytes, length: self.content_bytes, was_compressed: true })
    }

    fn decompress(&self, compression: Compression) -> Option<Arc<[u8]>> {
        let mut content = zeroed(self.content_bytes);
        let into = Arc::get_mut(&mut content).unwrap_or_default();
        compression::decompress(compression, self.body, into).then_some(content)
    }
}

#[cold]
fn corrupt(kind: PartKind, path: &Path, offset: u64, what: &str) -> Error {
    Error::corruption(path, offset, format!("{}: {what}", kind.name()))
}

/// Reads and opens a part: one operation on the file, of exactly the part's length, into the buffer that is kept. The
/// caller has bounded the length.
pub(crate) fn read(
    file: &dyn File,
    identity: Identity,
    kind: PartKind,
    path: &Path,
    offset: u32,
    length: usize,
) -> Result<Content> {
    let mut bytes = zeroed(length);
    // Nobody else has these bytes yet, so `get_mut` gives them; likewise in `open`.
    file.read_exact_at(Arc::get_mut(&mut bytes).unwrap_or_default(), offset.into())?;
    open(Stored::Own(bytes), identity, kind, path, offset)
}

/// As [`read`], for a part whose checksum covers `number` where other parts have their offset.
pub(crate) fn read_numbered(
    file: &dyn File,
    identity: Identity,
    kind: PartKind,
    path: &Path,
    number: u32,
    (offset, length): (u64, usize),
) -> Result<Content> {
    let mut bytes = zeroed(length);
    file.read_exact_at(Arc::get_mut(&mut bytes).unwrap_or_default(), offset)?;
    open_numbered(Stored::Own(bytes), identity, kind, path, number, offset)
}

/// Shared bytes, zero and not yet shared, so that they can be read into. One allocation, no copy.
pub(crate) fn zeroed(length: usize) -> Arc<[u8]> {
    std::iter::repeat_n(0, length).collect()
}

#[cfg(test)]
mod tests;
