//! Section 5: opening a store, whatever the last opening left.

pub(crate) mod checkpoint_schedule;
pub(crate) mod index_checkpoint;
pub(crate) mod index_image;
pub(crate) mod needless_deletes;
pub(crate) mod open;
pub(crate) mod rebuild;
pub(crate) mod recover;
pub(crate) mod repair;
