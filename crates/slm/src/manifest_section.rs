//! [`Section`]: what the MANIFEST keeps for SLM-DB, in the section that is the engine's own (`docs/formats/manifest.md`).

use slmdb_engine::files::file_names as names;
use slmdb_env::{Error, Result};
use slmdb_manifest::{FILE_NAME, NUMBERS_MAX, StoreState};

pub(crate) const CANDIDATES: u8 = 1;
const CHECKPOINTS: u8 = 2;
const DELETES_DROPPED_THROUGH: u8 = 3;

/// So many index checkpoints are kept.
const CHECKPOINTS_MAX: usize = 2;

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
        let words = |bytes| whole(bytes).map(|words| words.iter().map(|&word| u64::from_le_bytes(word)).collect());
        let dropped: Vec<u64> = words(dropped)?;
        let deletes_dropped_through = dropped.first().copied().unwrap_or(0);
        if dropped.len() > 1 || deletes_dropped_through > state.flushed_through {
            return Err(format!("deletes dropped through {dropped:?}, flushed through {}", state.flushed_through));
        }
        let checkpoints = checkpoints_of(whole(&words(checkpoints)?)?, state.flushed_through)?;
        let mut candidates: Vec<u32> = whole(candidates)?.iter().map(|&number| u32::from_le_bytes(number)).collect();
        if ![0].iter().chain(&candidates).chain([&state.next_file_number]).is_sorted_by(|one, next| one < next) {
            return Err("the candidates are not in order, or never were there".into());
        }
        // A record that removes a file does not write the list anew.
        candidates.retain(|number| state.files.contains_key(number));
        Ok(Section { candidates, checkpoints, deletes_dropped_through })
    }

    /// Makes it the section of a MANIFEST.
    pub fn write_to(&self, state: &mut StoreState) {
        let dropped = Some(self.deletes_dropped_through).filter(|&through| through > 0).map(deletes_dropped_part);
        let lists = [candidates_part(self.candidates.iter().copied()), checkpoints_part(&self.checkpoints)];
        state.engine_section = lists.into_iter().filter(|(_, bytes)| !bytes.is_empty()).chain(dropped).collect();
    }
}

/// The files that the MANIFEST names beside table files: index checkpoints.
pub(crate) fn own_files(state: &StoreState) -> Result<Vec<(String, u64)>> {
    let name = |number| names::checkpoint("".as_ref(), number).display().to_string();
    Ok(Section::of(state)?.checkpoints.iter().map(|record| (name(record.number), record.length_bytes)).collect())
}

/// The part that has the candidates, in order.
pub(crate) fn candidates_part(candidates: impl Iterator<Item = u32>) -> (u8, Vec<u8>) {
    (CANDIDATES, candidates.flat_map(u32::to_le_bytes).collect())
}

/// The part that has the index checkpoints.
pub(crate) fn checkpoints_part(checkpoints: &[CheckpointRecord]) -> (u8, Vec<u8>) {
    let words = |of: &CheckpointRecord| [of.number.into(), of.through, of.entries, of.length_bytes];
    (CHECKPOINTS, checkpoints.iter().flat_map(words).flat_map(u64::to_le_bytes).collect())
}

/// The part that says which deletes may have been dropped.
pub(crate) fn deletes_dropped_part(through: u64) -> (u8, Vec<u8>) {
    (DELETES_DROPPED_THROUGH, through.to_le_bytes().to_vec())
}

/// Items of `N`, and nothing behind them.
fn whole<T, const N: usize>(items: &[T]) -> Checked<&[[T; N]]> {
    match items.as_chunks() {
        (whole, []) => Ok(whole),
        _ => Err("half a number or record".into()),
    }
}

fn checkpoints_of(records: &[[u64; 4]], flushed_through: u64) -> Checked<Vec<CheckpointRecord>> {
    let mut checkpoints: Vec<CheckpointRecord> = Vec::new();
    for &[number, through, entries, length_bytes] in records {
        let last = checkpoints.last().copied().unwrap_or_default();
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let comes_next = (last.number + 1..u32::MAX).contains(&number) && checkpoints.len() < CHECKPOINTS_MAX;
        if !comes_next || !(last.through..=flushed_through).contains(&through) || entries > NUMBERS_MAX {
            return Err(format!(
                "index checkpoint {number} through {through} of {entries} entries, after {} through {}, flushed through \
                 {flushed_through}",
                last.number, last.through
            ));
        }
        checkpoints.push(CheckpointRecord { number, through, entries, length_bytes });
    }
    Ok(checkpoints)
}

#[cfg(test)]
mod tests;
