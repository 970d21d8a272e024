//! [`WriteBack`]: a device begins with a file while the rest of it is still being made.
//!
//! A file is synced once, when it is whole. If nothing of it is on the device by then, the sync waits for all of it, and the device
//! had nothing to do before. So the system is told, a piece at a time, what is written and stays as it is.

use slmdb_env::File;

/// How long a piece is: long enough for the device, short enough that the last one takes it few milliseconds.
const PIECE_BYTES: u64 = 2 << 20;

/// How far the device has been told to write a file.
#[derive(Debug, Default)]
pub(crate) struct WriteBack {
    told_bytes: u64,
}

impl WriteBack {
    /// To be called when the file is written up to here and will not be written before that again.
    pub(crate) fn written_through(&mut self, file: &dyn File, written_bytes: u64) {
        let untold_bytes = written_bytes - self.told_bytes;
        if untold_bytes >= PIECE_BYTES {
            file.advise_written(self.told_bytes, untold_bytes);
            self.told_bytes = written_bytes;
        }
    }
}
