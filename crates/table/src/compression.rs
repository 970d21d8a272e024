//! How parts are made smaller: LZ4 always, zstd where it is built in.
//!
//! zstd compresses better and costs more, and its code is C. So it is a feature of the build, `zstd`, which is off by
//! default and needs a C compiler. A part says by itself how it is stored ([`super::part`]): which compression a table was
//! asked for matters to its writer alone, and a build without zstd tells such a part from damage.
//!
//! Whatever is unpacked goes into a buffer whose length was decided before, and no decompressor here takes more memory than
//! that and its own tables: LZ4 needs none, zstd about 100 KB for each thread that reads and 1.5 MB for one that writes.

use slmdb_env::{Error, Result};

/// How the parts of a table file are stored. Each part for itself: one that compression would not make at least an
/// eighth smaller is stored as it is, and so is one longer than
/// [`COMPRESSED_PART_MAXIMUM_BYTES`](crate::COMPRESSED_PART_MAXIMUM_BYTES).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Compression {
    /// As they are.
    None,
    /// LZ4's block format: less to write, read and keep on the disk for a little of the processor.
    #[default]
    Lz4,
    /// zstd at level 3: smaller than LZ4, and several times slower to make and to unpack. Only in builds with the feature
    /// `zstd`; to ask for it in another is [`Error::Unsupported`].
    Zstd,
}

impl Compression {
    /// Those that this build can make and unpack.
    pub const BUILT_IN: &[Compression] = &[
        Compression::None,
        Compression::Lz4,
        #[cfg(feature = "zstd")]
        Compression::Zstd,
    ];

    /// [`Error::Unsupported`] unless this build has it.
    pub fn check(self) -> Result<()> {
        if Compression::BUILT_IN.contains(&self) {
            return Ok(());
        }
        Err(Error::Unsupported { what: format!("compression with {}", without_feature()), file: None })
    }
}

/// What there is to say about a compression that is known, but not built in: zstd.
pub(crate) fn without_feature() -> &'static str {
    "zstd needs a build of slmdb with the feature `zstd` (cargo build --features zstd, and a C compiler)"
}

/// Compresses `content` to the front of `scratch`, which grows as needed, and tells the length; `None` if it is not to be
/// compressed or that did not work.
pub(crate) fn compress(compression: Compression, content: &[u8], scratch: &mut Vec<u8>) -> Option<usize> {
    let room_bytes = match compression {
        Compression::None => return None,
        Compression::Lz4 => lz4_flex::block::get_maximum_output_size(content.len()),
        Compression::Zstd => zstd::room_bytes(content.len()),
    };
    if scratch.len() < room_bytes {
        scratch.resize(room_bytes, 0);
    }
    match compression {
        Compression::None => None,
        Compression::Lz4 => lz4_flex::block::compress_into(content, scratch).ok(),
        Compression::Zstd => zstd::compress(content, scratch),
    }
}

/// Unpacks `body`, which must fill `into` exactly. False: its bytes are wrong.
pub(crate) fn decompress(compression: Compression, body: &[u8], into: &mut [u8]) -> bool {
    let unpacked_bytes = match compression {
        Compression::None => None,
        Compression::Lz4 => lz4_flex::block::decompress_into(body, into).ok(),
        Compression::Zstd => zstd::decompress(body, into),
    };
    unpacked_bytes == Some(into.len())
}

#[cfg(feature = "zstd")]
mod zstd {
    //! zstd's one-call interface, with the working memory kept by each thread.

    use std::cell::RefCell;

    use ::zstd::bulk::{Compressor, Decompressor};

    /// The library's own default: where more effort begins to pay little.
    const LEVEL: i32 = 3;

    thread_local! {
        static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }

    pub(super) fn room_bytes(content_bytes: usize) -> usize {
        ::zstd::zstd_safe::compress_bound(content_bytes)
    }

    pub(super) fn compress(content: &[u8], into: &mut [u8]) -> Option<usize> {
        COMPRESSOR.with_borrow_mut(|kept| {
            if kept.is_none() {
                *kept = Some(Compressor::new(LEVEL).ok()?);
            }
            kept.as_mut()?.compress_to_buffer(content, into).ok()
        })
    }

    pub(super) fn decompress(body: &[u8], into: &mut [u8]) -> Option<usize> {
        DECOMPRESSOR.with_borrow_mut(|kept| {
            if kept.is_none() {
                *kept = Some(Decompressor::new().ok()?);
            }
            kept.as_mut()?.decompress_to_buffer(body, into).ok()
        })
    }
}

#[cfg(not(feature = "zstd"))]
mod zstd {
    //! What stands in for zstd in a build without it; [`super::Compression::check`] has kept everybody away.

    pub(super) fn room_bytes(_content_bytes: usize) -> usize {
        0
    }

    pub(super) fn compress(_content: &[u8], _into: &mut [u8]) -> Option<usize> {
        None
    }

    pub(super) fn decompress(_body: &[u8], _into: &mut [u8]) -> Option<usize> {
        None
    }
}
