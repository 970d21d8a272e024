//! [`LevelZeroState`]: what the MANIFEST says of level 0, in the section that is the engine's own. Part 1:
//!
//! ```text
//! 0   u32    epoch: how often the trees have changed their roles
//! 4   u64    immutable through: the highest sequence number in the immutable tree's run files
//! 12  u8     1 if a key follows
//! 13  bytes  compacted through: the immutable tree's keys up to this one are in level 1
//! ```
//!
//! Part 2 is a u32, the number of the last of the immutable tree's run files. Without it, all that have the highest sequence number
//! are the immutable tree's.

use slmdb_env::{Error, Result};
use slmdb_manifest::{EngineSection, FILE_NAME, StoreState};
use slmdb_order::KeyOrder;

const PART: u8 = 1;
const LAST_FILE_PART: u8 = 2;

/// What the MANIFEST says of level 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LevelZeroState {
    /// How often the trees have changed their roles.
    pub(crate) epoch: u32,
    /// Run files with sequence numbers up to this belong to the immutable tree,
    pub(crate) immutable_through: u64,
    /// but for those that have this as their highest one, and come behind this file: the deletes that a range comes to have one
    /// number, and may be in several files.
    pub(crate) last_immutable_file: u32,
    /// The immutable tree's keys up to this one have gone to level 1. `None`: none has.
    pub(crate) compacted_through: Option<Vec<u8>>,
}

impl LevelZeroState {
    /// What a MANIFEST has. A store that never had a switch has nothing there.
    pub(crate) fn of(state: &StoreState) -> Result<LevelZeroState> {
        let [bytes, last_file] = state.engine_parts()?;
        if bytes.is_empty() {
            return Ok(LevelZeroState::default());
        }
        Self::decode(bytes, last_file)
            .ok_or_else(|| Error::corruption(FILE_NAME, 0, "the section of level 0 is damaged"))
    }

    fn decode(bytes: &[u8], last_file: &[u8]) -> Option<LevelZeroState> {
        let (epoch, rest) = bytes.split_first_chunk::<4>()?;
        let (immutable_through, rest) = rest.split_first_chunk::<8>()?;
        let compacted_through = match rest.split_first()? {
            (0, []) => None,
            (1, key) => Some(key.to_vec()),
            _ => return None,
        };
        let (epoch, immutable_through) = (u32::from_le_bytes(*epoch), u64::from_le_bytes(*immutable_through));
        let last_immutable_file =
            if last_file.is_empty() { u32::MAX } else { u32::from_le_bytes(last_file.try_into().ok()?) };
        Some(LevelZeroState { epoch, immutable_through, last_immutable_file, compacted_through })
    }

    /// As the MANIFEST has it.
    pub(crate) fn section(&self) -> EngineSection {
        let mut bytes = self.epoch.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.immutable_through.to_le_bytes());
        bytes.push(u8::from(self.compacted_through.is_some()));
        bytes.extend_from_slice(self.compacted_through.as_deref().unwrap_or_default());
        EngineSection::from([(PART, bytes), (LAST_FILE_PART, self.last_immutable_file.to_le_bytes().to_vec())])
    }
}

/// Which tree an entry of a run file belongs to, by what the MANIFEST says.
#[derive(Debug, Clone)]
pub(crate) struct Eras(LevelZeroState);

impl Eras {
    /// As a MANIFEST has them.
    pub(crate) fn of(state: &StoreState) -> Result<Eras> {
        LevelZeroState::of(state).map(Eras)
    }

    fn is_immutable(&self, (number, highest_sequence): (u32, u64)) -> bool {
        (highest_sequence, number) <= (self.0.immutable_through, self.0.last_immutable_file)
    }

    /// The number of the tree that a run file belongs to, by its number and its highest sequence number.
    pub(crate) fn tree(&self, run_file: (u32, u64)) -> u32 {
        (self.0.epoch + u32::from(self.is_immutable(run_file))) % 2
    }

    /// Whether the tree of such a run file has a key still: a chunk has not moved it on.
    pub(crate) fn has(&self, run_file: (u32, u64), key: &[u8], order: &KeyOrder) -> bool {
        let through = self.0.compacted_through.as_deref().filter(|_| self.is_immutable(run_file));
        through.is_none_or(|through| order.compare(key, through).is_gt())
    }
}

#[cfg(test)]
mod tests {
    use slmdb_env::ErrorKind;
    use slmdb_manifest::{MediumKind, MediumRecord};

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for compacted_through in [None, Some(Vec::new()), Some(b"key".to_vec())] {
            let state =
                LevelZeroState { epoch: 7, immutable_through: 1 << 40, last_immutable_file: 9, compacted_through };
            let section = state.section();
            assert_eq!(LevelZeroState::decode(&section[&PART], &section[&LAST_FILE_PART]), Some(state.clone()));
            let before = LevelZeroState { last_immutable_file: u32::MAX, ..state };
            assert_eq!(LevelZeroState::decode(&section[&PART], &[]), Some(before), "as an older build wrote it");
            assert_eq!(LevelZeroState::decode(&section[&PART], &[1]), None);
        }
    }

    /// A later build may mean something else by the same bytes (trap 16).
    #[test]
    fn a_part_of_another_version_is_refused() {
        let medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
        let bytes = LevelZeroState::default().section()[&PART].clone();
        let with = |part| StoreState {
            engine_section: EngineSection::from([(part, bytes.clone())]),
            ..StoreState::new([1; 16], "lab", "bytewise", medium.clone())
        };
        let expected = LevelZeroState { last_immutable_file: u32::MAX, ..LevelZeroState::default() };
        assert_eq!(LevelZeroState::of(&with(PART)).unwrap(), expected);
        assert_eq!(LevelZeroState::of(&with(LAST_FILE_PART + 1)).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn other_bytes_are_refused() {
        let bytes = LevelZeroState::default().section()[&PART].clone();
        for length in 0..bytes.len() {
            assert_eq!(LevelZeroState::decode(&bytes[..length], &[]), None);
        }
        assert_eq!(LevelZeroState::decode(&[&bytes[..], b"x"].concat(), &[]), None);
        assert_eq!(LevelZeroState::decode(&[&bytes[..12], &[2]].concat(), &[]), None);
    }
}
