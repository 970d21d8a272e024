//! A hook in every read of a slot.
pub(in super::super) fn before_slot_read() {}
