//! Where a table lies: [`TableBytes`], and the pool as one such place. (An engine has the other: files.)

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_pmem::{Extent, ExtentKind, Medium, Pool};

/// Where a table lies. Nobody changes it there while it is open.
pub trait TableBytes: Debug + Send + Sync {
    /// Its file, or that of its pool, for messages.
    fn path(&self) -> &Path;

    /// Where in that file it begins, in bytes, for messages.
    fn offset_bytes(&self) -> u64 {
        0
    }

    /// How much there is, in bytes. A table may be shorter.
    fn length_bytes(&self) -> u64;

    /// Copies as many bytes as `into` has, from `at` on. REQUIRES: so many lie within [`TableBytes::length_bytes`].
    ///
    /// A search asks for one unit of 256 bytes at a time.
    fn copy(&self, at: u64, into: &mut [u8]) -> Result<()>;

    /// The same, where they lie if that can be, else copied into `buffer`.
    #[inline]
    fn lend<'b>(&'b self, at: u64, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
        self.copy(at, buffer)?;
        Ok(buffer)
    }
}

/// A table in an extent of the pool.
///
/// REQUIRES: the extent is not freed while this is there.
pub struct PoolBytes<M: Medium> {
    pool: Arc<Pool<M>>,
    extent: Extent,
}

impl<M: Medium> PoolBytes<M> {
    /// The bytes of an extent. [`Error::Corruption`] if there is none, or it is of another kind.
    pub fn new(pool: Arc<Pool<M>>, extent: Extent) -> Result<PoolBytes<M>> {
        if pool.extent_at(extent.offset) != Some(extent) || extent.kind != ExtentKind::HashTable {
            return Err(Error::corruption(pool.path(), extent.offset, "a hash table is not where it should be"));
        }
        Ok(PoolBytes { pool, extent })
    }

    /// Where it lies.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    #[inline]
    fn bytes(&self, at: u64, length_bytes: usize) -> Result<&[u8]> {
        self.pool.note_read();
        // SAFETY: of a table, whose maker has completed it before telling anybody. Nobody changes it since, and it is not
        // freed before this.
        unsafe { self.pool.bytes(self.extent.offset + at, length_bytes as u64) }
    }
}

impl<M: Medium> TableBytes for PoolBytes<M> {
    fn path(&self) -> &Path {
        self.pool.path()
    }

    fn offset_bytes(&self) -> u64 {
        self.extent.offset
    }

    fn length_bytes(&self) -> u64 {
        self.extent.length_bytes
    }

    fn copy(&self, at: u64, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(self.bytes(at, into.len())?);
        Ok(())
    }

    #[inline]
    fn lend<'b>(&'b self, at: u64, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
        self.bytes(at, buffer.len())
    }
}

impl<M: Medium> Debug for PoolBytes<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PoolBytes").field("extent", &self.extent).finish_non_exhaustive()
    }
}
