//! Which table files are compacted (paper, section 3.3).
//!
//! There are two policies: [`garbage_policy`], the default, and [the paper's](crate::paper). They share
//! [`seeks`], [`live_key_ratio`] and [`overlap_ratio`]. When space is short, [`low_space_policy`] chooses.

pub(crate) mod distances;
pub(crate) mod file_notes;
pub(crate) mod garbage_policy;
pub(crate) mod live_key_ratio;
pub(crate) mod low_space_policy;
pub(crate) mod overlap_ratio;
pub(crate) mod policy;
pub(crate) mod seeks;
