//! The log: an arena filled front to back with records, one for each batch. It knows no index.
//!
//! SLM-DB keeps its MemTable in persistent memory so that it needs no write-ahead log (section 3.1 of the paper). Here the
//! [arena](slmdb_pmem::Arena) that holds the entries of a MemTable is its log. On persistent memory a record is durable with
//! one flush and one fence; where the arena is a file, the same bytes are the log that a sync makes durable. There is no
//! second format, and nothing is written twice.
//!
//! A write, from front to back: encode a [`Payload`] (may fail) → under the write path's lock
//! [`try_reserve`](Log::try_reserve) a place and number it → [`write`](Log::write) it there and give its entries to an
//! index → [`persist`](Log::persist) it, side by side with other writers → publish the sequence number once everything
//! before it is durable, which is the engine's part. After a crash [`read`] goes over the records, and shows each entry
//! that counts to whoever makes an index of them (the MemTable is one). [`Log::copied_from`] moves small
//! logs into a new arena.
//!
//! To read: `record` (the bytes), `range_delete`, `arena_header`, `record_form`; `log` (writing), `verify`; then `log_bytes`, `replay` and
//! `copy` (coming back). `docs/formats/arena.md` has the format and the rules of recovery on one page.

mod arena_header;
mod copy;
#[allow(clippy::module_inception)]
mod log;
mod log_bytes;
mod range_delete;
mod record;
mod record_form;
mod replay;
mod verify;

pub use arena_header::{ARENA_FORMAT_VERSION, ARENA_HEADER_BYTES, MAXIMUM_ARENA_BYTES, arena_bytes_in_header};
pub use log::{Log, Reservation, Written};
pub(crate) use log_bytes::LogBytes;
pub use range_delete::{KeyBounds, bytes_of_bounds};
pub use record::{
    ENTRY_HEADER_BYTES, MAXIMUM_BATCH_BYTES, MAXIMUM_KEY_BYTES, MAXIMUM_VALUE_BYTES, Payload, PayloadEntries,
    PayloadEntry, PayloadKind, RECORD_ALIGNMENT_BYTES, RECORD_HEADER_BYTES,
};
pub(crate) use record::{RecordHeader, entry_kind, entry_lengths, slot_of};
pub(crate) use record_form::{FRONT_SLOT, Slot};
pub use record_form::{RecordForm, SLOT_BYTES};
pub use replay::{ExpectedSequence, LoggedEntry, Reading, Stop, holds_records, known_safe_after, read};
