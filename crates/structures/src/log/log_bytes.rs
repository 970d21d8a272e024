//! An arena's bytes, which may be anything, looked at as records of one generation.

use std::ops::ControlFlow;

use super::record::{RECORD_ALIGNMENT_BYTES, RECORD_HEADER_BYTES, RecordHeader, RecordHeaderBytes};
use super::record_form::RecordForm;

/// What a scan for whole records may spend on payload CRCs, in lengths of the bytes scanned. Honest bytes need less than
/// one: only forged headers, whose payloads overlap, can ask for more.
const SCAN_WORK_FACTOR: u64 = 4;

/// Bytes, and what makes a record among them one of this generation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogBytes<'a> {
    pub bytes: &'a [u8],
    pub crc_seed: u32,
    pub form: RecordForm,
}

impl<'a> LogBytes<'a> {
    pub fn header_at(&self, offset: usize) -> Option<&'a RecordHeaderBytes> {
        self.bytes.get(offset..)?.first_chunk()
    }

    fn fault(&self, header: &RecordHeader, offset: usize) -> Option<&'static str> {
        header.fault((self.bytes.len() - offset) as u64, self.form)
    }

    /// What is impossible about the header there, although its CRC is right.
    pub fn signed_fault_at(&self, offset: usize) -> Option<&'static str> {
        let header = self.header_at(offset)?;
        let fault = self.fault(&RecordHeader::read(header), offset)?;
        RecordHeader::crc_matches(header, self.crc_seed).then_some(fault)
    }

    /// The header there, if it is one, and the payload behind it, whole or not.
    pub fn signed_header_at(&self, offset: usize) -> Option<(RecordHeader, &'a [u8])> {
        let bytes = self.header_at(offset)?;
        let header = RecordHeader::read(bytes);
        if self.fault(&header, offset).is_some() || !RecordHeader::crc_matches(bytes, self.crc_seed) {
            return None;
        }
        let payload = &self.bytes[offset + header.payload_start(self.form) as usize..];
        Some((header, &payload[..header.payload_length as usize]))
    }

    pub fn whole_record_at(&self, offset: usize) -> Option<(RecordHeader, &'a [u8])> {
        self.signed_header_at(offset).filter(|(header, payload)| slmdb_checksum::crc32c(payload) == header.payload_crc)
    }

    /// Visits the whole records at or behind `offset`, wherever they stand; behind a whole one it goes on at its end.
    fn scan(&self, offset: usize, mut visit: impl FnMut(&RecordHeader) -> ControlFlow<()>) {
        const STEP: usize = RECORD_ALIGNMENT_BYTES as usize;
        let mut offset = offset.max(self.form.first_record_offset() as usize);
        let mut work = (self.bytes.len().saturating_sub(offset) as u64).saturating_mul(SCAN_WORK_FACTOR);
        while let Some(aligned) = offset.checked_next_multiple_of(STEP).filter(|&offset| offset < self.bytes.len()) {
            offset = aligned + STEP;
            let Some((header, payload)) = self.signed_header_at(aligned) else { continue };
            let Some(left) = work.checked_sub(payload.len() as u64) else { return };
            work = left;
            if slmdb_checksum::crc32c(payload) == header.payload_crc {
                if visit(&header).is_break() {
                    return;
                }
                offset = aligned.saturating_add(header.record_bytes(self.form) as usize);
            }
        }
    }

    pub fn holds_records(&self) -> bool {
        let mut any = false;
        self.scan(0, |_| {
            any = true;
            ControlFlow::Break(())
        });
        any
    }

    /// The largest known-safe sequence number of any whole record at or behind `offset`.
    pub fn known_safe_after(&self, offset: usize) -> Option<u64> {
        let mut largest = None;
        self.scan(offset, |header| {
            largest = largest.max(Some(header.known_safe_sequence));
            ControlFlow::Continue(())
        });
        largest
    }
}

/// What is in front of the payload of every record is whole before the payload is looked at.
const _: () = assert!(RECORD_HEADER_BYTES as usize == size_of::<RecordHeaderBytes>());
