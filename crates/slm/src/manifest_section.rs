//! [`Section`]: what the MANIFEST keeps for SLM-DB, in the section that is the engine's own (`docs/formats/manifest.md`).
//!
//! Three parts, each written as a whole by the record that changes it:
//!
//! | part | | content |
//! |---:|---|---|
//! | 1 | candidates | n × u32 |
//! | 2 | checkpoints | at most 2 × (number u32, through u64, entries u64, length u64), oldest first |
//! | 3 | deletes dropped through | u64 |

use std::collections::BTreeSet;

use slmdb_engine::directory::OwnFile;
use slmdb_engine::files::file_names as names;
use slmdb_env::{Error, Result};
use slmdb_manifest::{Edit, FILE_NAME, NUMBERS_MAX, StoreState};

const CANDIDATES: u8 = 1;
const CHECKPOINTS: u8 = 2;
const DELETES_DROPPED_THROUGH: u8 = 3;

/// So many index checkpoints are kept.
const CHECKPOINTS_MAX: usize = 2;
/// The bytes of one.
const CHECKPOINT_BYTES: usize = 28;

/// What the MANIFEST keeps for SLM-DB.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    /// The compaction candidate list (section 3.3 of the paper): files of the store.
    pub candidates: Vec<u32>,
    /// The index checkpoints, oldest first: two at most.
    pub checkpoints: Vec<CheckpointRecord>,
    /// Tombstones up to this sequence number may have been dropped by compactions. Without a checkpoint that goes as far,
    /// the index can't be rebuilt: deleted keys would come back.
    pub deletes_dropped_through: u64,
}

/// An index checkpoint: a file that says where the newest version of every key was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckpointRecord {
    /// Its number; larger for later ones.
    pub number: u32,
    /// S: every flush up to this sequence number had been committed when it was begun.
    pub through: u64,
    /// How many entries it has.
    pub entries: u64,
    /// The file's length in bytes.
    pub length_bytes: u64,
}

/// What is right, or what is wrong about it.
type Checked<T> = std::result::Result<T, String>;

impl Section {
    /// What a MANIFEST has. [`Error::Corruption`] if that makes no sense.
    pub fn of(state: &StoreState) -> Result<Section> {
        Section::decode(state.engine_parts()?, state)
            .map_err(|what| Error::corruption(FILE_NAME, 0, format!("the section of SLM-DB: {what}")))
    }

    fn decode([candidates, checkpoints, dropped]: [&[u8]; 3], state: &StoreState) -> Checked<Section> {
        let flushed_through = state.flushed_through;
        let checkpoints: Option<Vec<_>> = checkpoints.chunks(CHECKPOINT_BYTES).map(checkpoint).collect();
        let checkpoints = checkpoints.ok_or("half an index checkpoint")?;
        check_checkpoints(&checkpoints, flushed_through)?;
        let deletes_dropped_through = match dropped {
            [] => 0,
            bytes => u64::from_le_bytes(bytes.try_into().map_err(|_| "half a sequence number")?),
        };
        if deletes_dropped_through > flushed_through {
            return Err(format!(
                "deletes dropped through {deletes_dropped_through}, but flushed through {flushed_through}"
            ));
        }
        Ok(Section { candidates: candidates_of(candidates, state)?, checkpoints, deletes_dropped_through })
    }

    /// Makes it the section of a MANIFEST.
    pub fn write_to(&self, state: &mut StoreState) {
        let dropped = Some(self.deletes_dropped_through).filter(|&through| through > 0).map(deletes_dropped_part);
        let lists = [candidates_part(self.candidates.iter().copied()), checkpoints_part(&self.checkpoints)];
        state.engine_section = lists.into_iter().filter(|(_, bytes)| !bytes.is_empty()).chain(dropped).collect();
    }
}

/// The files that the MANIFEST names beside table files: index checkpoints.
pub(crate) fn own_files(state: &StoreState) -> Result<Vec<OwnFile>> {
    let file = |CheckpointRecord { number, length_bytes, .. }| OwnFile {
        name: names::checkpoint("".as_ref(), number).display().to_string(),
        length_bytes,
    };
    Ok(Section::of(state)?.checkpoints.into_iter().map(file).collect())
}

/// The part that has the candidates.
pub(crate) fn candidates_part(candidates: impl Iterator<Item = u32>) -> (u8, Vec<u8>) {
    (CANDIDATES, candidates.flat_map(u32::to_le_bytes).collect())
}

/// Whether a record changes that part.
pub(crate) fn has_candidates(edit: &Edit) -> bool {
    edit.engine_section.contains_key(&CANDIDATES)
}

/// The part that has the index checkpoints.
pub(crate) fn checkpoints_part(checkpoints: &[CheckpointRecord]) -> (u8, Vec<u8>) {
    let mut bytes = Vec::with_capacity(checkpoints.len() * CHECKPOINT_BYTES);
    for CheckpointRecord { number, through, entries, length_bytes } in checkpoints {
        bytes.extend_from_slice(&number.to_le_bytes());
        for word in [through, entries, length_bytes] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
    (CHECKPOINTS, bytes)
}

/// The part that says which deletes may have been dropped.
pub(crate) fn deletes_dropped_part(through: u64) -> (u8, Vec<u8>) {
    (DELETES_DROPPED_THROUGH, through.to_le_bytes().to_vec())
}

/// The candidates that are files still. A record that removes a file does not write the list anew.
fn candidates_of(bytes: &[u8], state: &StoreState) -> Checked<Vec<u32>> {
    let mut candidates = BTreeSet::new();
    for number in bytes.chunks(4) {
        let number = u32::from_le_bytes(number.try_into().map_err(|_| "half a candidate")?);
        if number == 0 || number >= state.next_file_number {
            return Err(format!("file {number} is a candidate, but never was there"));
        }
        if !candidates.insert(number) {
            return Err(format!("file {number} is a candidate twice"));
        }
    }
    Ok(candidates.into_iter().filter(|number| state.files.contains_key(number)).collect())
}

fn checkpoint(bytes: &[u8]) -> Option<CheckpointRecord> {
    let (number, rest) = bytes.split_first_chunk()?;
    let (through, rest) = rest.split_first_chunk()?;
    let (entries, length_bytes) = rest.split_first_chunk()?;
    Some(CheckpointRecord {
        number: u32::from_le_bytes(*number),
        through: u64::from_le_bytes(*through),
        entries: u64::from_le_bytes(*entries),
        length_bytes: u64::from_le_bytes(length_bytes.try_into().ok()?),
    })
}

fn check_checkpoints(checkpoints: &[CheckpointRecord], flushed_through: u64) -> Checked<()> {
    if checkpoints.len() > CHECKPOINTS_MAX {
        return Err(format!("{} index checkpoints", checkpoints.len()));
    }
    if let Some(pair) =
        checkpoints.windows(2).find(|pair| pair[0].number >= pair[1].number || pair[0].through > pair[1].through)
    {
        return Err(format!("index checkpoint {} comes after {}", pair[1].number, pair[0].number));
    }
    if let Some(last) = checkpoints.iter().find(|last| last.number == u32::MAX || last.entries > NUMBERS_MAX) {
        return Err(format!("index checkpoint {} of {} entries", last.number, last.entries));
    }
    match checkpoints.iter().find(|checkpoint| checkpoint.number == 0 || checkpoint.through > flushed_through) {
        None => Ok(()),
        Some(CheckpointRecord { number, through, .. }) => {
            Err(format!("index checkpoint {number} through {through}, but flushed through {flushed_through}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use slmdb_env::ErrorKind;
    use slmdb_manifest::{FileRecord, MediumKind, MediumRecord};

    use super::*;

    fn checkpoint(number: u32, through: u64) -> CheckpointRecord {
        CheckpointRecord { number, through, entries: 7, length_bytes: 9 }
    }

    /// Files 1 to 3, flushed through 100, and a section.
    fn state(section: &Section) -> StoreState {
        let medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
        let mut state = StoreState::new([1; 16], "slm", "bytewise", medium);
        state.files = (1..=3).map(|number| (number, FileRecord::default())).collect();
        (state.next_file_number, state.flushed_through) = (4, 100);
        section.write_to(&mut state);
        state
    }

    fn full() -> Section {
        let checkpoints = vec![checkpoint(1, 90), checkpoint(2, 100)];
        Section { candidates: vec![1, 3], checkpoints, deletes_dropped_through: 100 }
    }

    #[test]
    fn what_is_written_is_read() {
        for section in [Section::default(), full(), Section { deletes_dropped_through: 0, ..full() }] {
            assert_eq!(Section::of(&state(&section)).unwrap(), section);
        }
        assert!(state(&Section::default()).engine_section.is_empty(), "what is not used takes no byte");
    }

    #[test]
    fn a_file_that_is_gone_is_no_candidate() {
        let mut state = state(&full());
        state.apply(&Edit { files_removed: vec![3], ..Edit::default() }).unwrap();
        assert_eq!(Section::of(&state).unwrap().candidates, [1]);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let checkpoints = |of: &[(u32, u64)]| Section {
            checkpoints: of.iter().map(|&(number, through)| checkpoint(number, through)).collect(),
            ..Section::default()
        };
        let candidates = |of: &[u32]| Section { candidates: of.to_vec(), ..Section::default() };
        let endless = CheckpointRecord { entries: u64::MAX, ..checkpoint(1, 1) };
        let cases = [
            ("3 index checkpoints", checkpoints(&[(1, 1), (2, 2), (3, 3)])),
            ("index checkpoint 2 comes after 2", checkpoints(&[(2, 1), (2, 2)])),
            ("index checkpoint 3 comes after 2", checkpoints(&[(2, 9), (3, 8)])),
            ("index checkpoint 1 through 101", checkpoints(&[(1, 101)])),
            ("index checkpoint 0", checkpoints(&[(0, 1)])),
            ("index checkpoint 4294967295", checkpoints(&[(u32::MAX, 1)])),
            ("of 18446744073709551615 entries", Section { checkpoints: vec![endless], ..Section::default() }),
            ("deletes dropped through 101", Section { deletes_dropped_through: 101, ..Section::default() }),
            ("file 0 is a candidate", candidates(&[0])),
            ("file 4 is a candidate", candidates(&[1, 4])),
            ("candidate twice", candidates(&[1, 2, 1])),
        ];
        for (why, section) in cases {
            let refused = Section::of(&state(&section)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corruption, "{why}");
            assert!(refused.to_string().contains(why), "{refused} lacks {why:?}");
        }
    }

    #[test]
    fn every_byte_is_needed() {
        for part in [CANDIDATES, CHECKPOINTS, DELETES_DROPPED_THROUGH] {
            for more in [1, -1] {
                let mut state = state(&full());
                let bytes = state.engine_section.get_mut(&part).unwrap();
                bytes.resize(bytes.len().wrapping_add_signed(more), 0);
                let refused = Section::of(&state).unwrap_err();
                assert!(refused.to_string().contains("half"), "{part}: {refused}");
            }
        }
    }

    #[test]
    fn a_part_of_a_newer_version_is_refused() {
        for part in [0, DELETES_DROPPED_THROUGH + 1, u8::MAX] {
            let mut state = state(&full());
            state.engine_section.insert(part, Vec::new());
            assert_eq!(Section::of(&state).unwrap_err().kind(), ErrorKind::Unsupported, "{part}");
        }
    }
}
