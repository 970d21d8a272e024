//! Checking a log while it is in use.

use slmdb_env::{Error, Result};
use slmdb_pmem::Medium;

use super::log::Log;
use super::record::{RECORD_HEADER_BYTES, RecordHeader};

impl<M: Medium> Log<M> {
    /// Checks that every record up to sequence number `through`, which must be published, is in the arena as it was written.
    /// [`Error::Corruption`] names the first that is not, and its place. Writers go on meanwhile.
    pub fn verify(&self, through: u64) -> Result<()> {
        let through = through.min(self.last_sequence().unwrap_or(0));
        if self.first_sequence().is_none_or(|first| first > through) {
            return Ok(());
        }
        let (mut offset, mut checked_through) = (self.first_record, 0);
        while checked_through < through {
            let header = self.whole_record(offset).ok_or_else(|| {
                let (file, offset) = self.arena().place(offset);
                Error::corruption(file, offset, "a record of a MemTable is not what was written there")
            })?;
            checked_through = header.last_sequence();
            offset += header.record_bytes(self.form());
        }
        Ok(())
    }

    /// The header of the record there, if all of it is what was written. REQUIRES: it is published.
    fn whole_record(&self, offset: u64) -> Option<RecordHeader> {
        // SAFETY: a published record is not written again.
        let bytes = unsafe { self.arena().bytes(offset, RECORD_HEADER_BYTES) }?;
        let bytes = bytes.first_chunk()?;
        if !RecordHeader::crc_matches(bytes, self.crc_seed) {
            return None;
        }
        let header = RecordHeader::read(bytes);
        if header.fault(self.arena().length_bytes().checked_sub(offset)?, self.form()).is_some() {
            return None;
        }
        let payload_offset = offset + header.payload_start(self.form());
        // SAFETY: as above.
        let payload = unsafe { self.arena().bytes(payload_offset, u64::from(header.payload_length)) }?;
        (slmdb_checksum::crc32c(payload) == header.payload_crc).then_some(header)
    }
}
