//! [`File`] and [`Mapped`]: what slmdb asks of an open file, and of one that is mapped for reading.

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};

/// An open file. All operations are positioned, so that any number of threads can share one.
pub trait File: Debug + Send + Sync + 'static {
    /// The path it was opened at, for messages.
    fn path(&self) -> &Path;
    /// Reads up to `into.len()` bytes at `offset_bytes`; fewer only at the end of the file.
    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> Result<usize>;
    /// Writes all of `bytes` at `offset_bytes`, growing the file where needed.
    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<()>;
    /// Makes content and length durable (fdatasync).
    fn sync_data(&self) -> Result<()>;
    /// Length in bytes.
    fn length_bytes(&self) -> Result<u64>;
    /// Cuts or grows (with a hole) to this length.
    fn set_length(&self, length_bytes: u64) -> Result<()>;
    /// Allocates real space for `[offset, offset + length)` and grows the file to cover it, so that a full disk is an
    /// error now and not a `SIGBUS` later. Where the file system can't, zeros are written.
    fn allocate(&self, offset_bytes: u64, length_bytes: u64) -> Result<()>;
    /// Whether [`File::allocate`] takes space without writing it, on the file system of this file. REQUIRES: the file is open for
    /// writing, and not empty.
    fn takes_space_at_once(&self) -> bool {
        true
    }
    /// Sees to it that a file that becomes as long as `length_bytes` finds its space there. Its length stays as it is; cutting
    /// it gives back what is beyond the new end. Where the file system can't, nothing happens.
    fn reserve(&self, length_bytes: u64) -> Result<()>;
    /// How many bytes the file system could hold that holds this file, all its files together; `None` where that can't be found out.
    fn file_system_bytes(&self) -> Option<u64> {
        None
    }
    /// Tells the system that reads will be random, so that it reads no more than is asked for. Never fails visibly.
    fn advise_random(&self);
    /// Says that this range will be read soon: a device may begin with it meanwhile. Where nothing comes of that, reading takes
    /// longer, and is as right.
    fn advise_will_read(&self, offset_bytes: u64, length_bytes: u64) {
        let _ = (offset_bytes, length_bytes);
    }
    /// Says that this range is written and stays as it is: a device may begin with it, so that [`File::sync_data`] has less to wait for.
    /// Nothing is durable by that. Never fails visibly.
    fn advise_written(&self, offset_bytes: u64, length_bytes: u64) {
        let _ = (offset_bytes, length_bytes);
    }
    /// What is in the file is not needed any more, but its place is: what is cached of it may go, and need never be written. It holds
    /// zeros afterwards, or what it held. Never fails visibly.
    fn give_up_content(&self) {}
    /// Maps the first `length_bytes` of the file for reading, if that can be: whoever reads much of a file that is in memory saves a
    /// call of the system for each read. `None` says no more than that it has to be read by [`File::read_at`].
    fn map(&self, length_bytes: u64) -> Option<Arc<dyn Mapped>> {
        let _ = length_bytes;
        None
    }
    /// The descriptor, for mapping; `None` in environments that have none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
    /// Where there is no descriptor: what was just stored to memory that stands for a mapping of this file, so that the file has
    /// it, too, as if it had been mapped. Bytes behind the file's end go nowhere, as with a mapping. Nothing by default.
    fn store_mapped(&self, bytes: &[u8], offset_bytes: u64) {
        let _ = (bytes, offset_bytes);
    }

    /// Reads exactly `into.len()` bytes; a file that ends before is [`Error::Corruption`].
    fn read_exact_at(&self, into: &mut [u8], offset_bytes: u64) -> Result<()> {
        let got = self.read_at(into, offset_bytes)?;
        if got == into.len() {
            return Ok(());
        }
        let what = format!("the file ends {} bytes early", into.len() - got);
        Err(Error::corruption(self.path(), offset_bytes.saturating_add(got as u64), what))
    }
}

/// A file that is mapped for reading. It goes on when the file is closed or its name is taken away, as an open file does.
///
/// What is read is copied, so that it can't change any more, whatever happens to the file. A mapping answers only for what it has
/// at once: for the rest (what is not in memory, what can't be read, what is behind the end) the file is to be read, which waits, or
/// has the error.
pub trait Mapped: Debug + Send + Sync + 'static {
    /// How much of the file is mapped, in bytes.
    fn length_bytes(&self) -> u64;
    /// Reads exactly `into.len()` bytes, or says `false`: then the file has to be read, and `into` may hold anything.
    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> Result<bool>;
    /// Reads exactly so many bytes into memory of their own; `None`: the file has to be read.
    fn read_shared(&self, length_bytes: usize, offset_bytes: u64) -> Result<Option<Arc<[u8]>>> {
        let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, length_bytes).collect();
        // Nobody else has them yet.
        let is_read = self.read_at(Arc::get_mut(&mut bytes).unwrap_or_default(), offset_bytes)?;
        Ok(is_read.then_some(bytes))
    }
    /// Says that these bytes will be read in a moment, so that the processor fetches what of them is in memory. A hint, which costs next to
    /// nothing; nothing by default.
    fn prefetch(&self, offset_bytes: u64, length_bytes: usize) {
        let _ = (offset_bytes, length_bytes);
    }
    /// Says that what was in memory may have left it meanwhile: it is to be looked at again. To be said now and then. Nothing by default.
    fn doubt(&self) {}
}
