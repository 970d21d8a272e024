//! Where the lowest level's links are: rebuilt after a crash, or persisted as in the paper.
//!
//! With [`LinkPolicy::Persisted`] the records of the log have [slots](RecordForm::WithSlots). The word of an entry's slot is
//! its link: the offset of the slot of the entry that follows in the list's order, 0 at the end. Bit 0 of it says that the
//! link may not be persisted yet. The slot in front of the first record begins the chain.

use crate::log::RecordForm;

/// In a link: its writer may not have persisted it yet.
pub(super) const NOT_PERSISTED: u64 = 1;

/// What becomes of the links of the skiplist's lowest level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum LinkPolicy {
    /// They live in DRAM and are rebuilt from the records after a crash. A write waits for the medium once.
    #[default]
    Rebuilt,
    /// They are persisted, in the paper's way (section 3.1, Algorithm 1), and followed after a crash. A write waits
    /// for the medium twice: for the record with its own link, and for the link that leads to it.
    Persisted,
}

impl LinkPolicy {
    /// All there are.
    pub const ALL: [LinkPolicy; 2] = [LinkPolicy::Rebuilt, LinkPolicy::Persisted];

    /// The form that the records of the log have with such links.
    pub const fn form(self) -> RecordForm {
        match self {
            LinkPolicy::Rebuilt => RecordForm::Plain,
            LinkPolicy::Persisted => RecordForm::WithSlots,
        }
    }
}
