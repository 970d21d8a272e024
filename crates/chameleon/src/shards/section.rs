//! [`Section`]: what the MANIFEST keeps for ChameleonDB, in the section that is the engine's own: which hash tables there are.
//!
//! Each table has an *epoch*. Epochs count what changes the index, in the order in which that takes effect. Of two tables the one
//! with the later epoch is newer. A last table has all of its shards' slots up to its epoch: what is no later counts no more there. A
//! dumped one has all that came since the one before.

use std::collections::BTreeSet;

use slmdb_engine::files::file_names as names;
use slmdb_engine::files::file_records::{file_record, numbered};
use slmdb_env::{Error, Result};
use slmdb_manifest::{Edit, FILE_NAME, FileRecord, MediumKind, StoreState};
use slmdb_structures::hash::SHARDS_MAX;
use slmdb_table::FinishedTable;

/// The part that has all.
const TABLES: u8 = 1;
/// Number, epoch, length and level of a table.
const ROW_BYTES: usize = 17;

/// Where slots are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// In no table: the newest entries of the table file of this number are to be read.
    KeySection = 0,
    /// In a table of the upper levels (section 2.1 of the paper).
    Upper = 1,
    /// In a table of the last level.
    Last = 2,
    /// In the table of a bypass that was dumped.
    Dumped = 3,
}

impl Level {
    fn of(byte: u8) -> Option<Level> {
        [Level::KeySection, Level::Upper, Level::Last, Level::Dumped].into_iter().find(|level| *level as u8 == byte)
    }
}

/// Slots that came into the index together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// The number of the table, or of the table file.
    pub(crate) number: u32,
    pub(crate) epoch: u32,
    /// How long the table is, in bytes; 0 if there is none.
    pub(crate) length_bytes: u64,
    pub(crate) level: Level,
}

impl Row {
    /// Whether readers look into the table where it lies. (Of the others bypasses have all slots.)
    pub(crate) fn is_read_in_place(&self) -> bool {
        matches!(self.level, Level::Last | Level::Dumped)
    }

    /// Whether a hash table has the slots.
    pub(crate) fn has_table(&self) -> bool {
        self.level != Level::KeySection
    }
}

/// What the MANIFEST keeps for ChameleonDB.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Section {
    /// How many shards the store has. `None`: it has no index yet, or none any more.
    pub(crate) shards: Option<u32>,
    pub(crate) rows: Vec<Row>,
}

impl Section {
    /// What a MANIFEST has. [`Error::Corruption`] if that makes no sense.
    pub(crate) fn of(state: &StoreState) -> Result<Section> {
        let [bytes] = state.engine_parts()?;
        let wrong = |what: String| Error::corruption(FILE_NAME, 0, format!("the section of ChameleonDB: {what}"));
        let Some((shard_bits, rows)) = bytes.split_first() else { return Ok(Section::default()) };
        let shards = 1_u32.checked_shl((*shard_bits).into()).filter(|&shards| shards <= SHARDS_MAX);
        let shards = shards.ok_or_else(|| wrong(format!("2^{shard_bits} shards")))?;
        let (rows, []) = rows.as_chunks() else { return Err(wrong("half a hash table".into())) };
        let rows: Vec<Row> = rows.iter().map(|row| row_of(row).map_err(wrong)).collect::<Result<_>>()?;
        let mut numbers = BTreeSet::new();
        for row in &rows {
            let is_there = match row.level {
                Level::KeySection => row.length_bytes == 0 && state.files.contains_key(&row.number),
                _ => row.length_bytes > 0 && (1..state.next_file_number).contains(&row.number),
            };
            if !is_there || row.epoch == 0 || !numbers.insert((row.number, row.has_table())) {
                return Err(wrong(format!("{row:?} can't be")));
            }
        }
        Ok(Section { shards: Some(shards), rows })
    }
}

fn row_of(row: &[u8; ROW_BYTES]) -> std::result::Result<Row, String> {
    let word = |at: usize| u32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]);
    let level = Level::of(row[16]).ok_or_else(|| format!("a hash table on level {}", row[16]))?;
    let length_bytes = u64::from(word(12)) << 32 | u64::from(word(8));
    Ok(Row { number: word(0), epoch: word(4), length_bytes, level })
}

/// The part of the section that says this.
pub(crate) fn tables_part(shards: u32, rows: &[Row]) -> (u8, Vec<u8>) {
    let mut bytes = vec![shards.trailing_zeros() as u8];
    for row in rows {
        bytes.extend_from_slice(&row.number.to_le_bytes());
        bytes.extend_from_slice(&row.epoch.to_le_bytes());
        bytes.extend_from_slice(&row.length_bytes.to_le_bytes());
        bytes.push(row.level as u8);
    }
    (TABLES, bytes)
}

/// Lets a store have no index: the next opening makes it of the keys of all table files.
pub(crate) fn forget_index(state: &mut StoreState) {
    state.engine_section.clear();
    state.files.values_mut().for_each(|file| file.live_keys = 0);
}

/// The record of a new table file, which no slot of a table leads to.
pub(crate) fn new_file(made: &FinishedTable) -> FileRecord {
    FileRecord { live_keys: 0, ..file_record(&made.properties, made.length_bytes) }
}

/// Adds to an edit the number of its job, and that of the next file, which may be a hash table.
pub(crate) fn numbered_with(state: &StoreState, edit: Edit, table: Option<Row>) -> Edit {
    let edit = numbered(state, edit);
    Edit { next_file_number: edit.next_file_number.max(table.map(|row| row.number + 1)), ..edit }
}

/// The files that the MANIFEST names beside table files: hash tables, unless they lie in the pool.
pub(crate) fn own_files(state: &StoreState) -> Result<Vec<(String, u64)>> {
    if state.medium.kind != MediumKind::Dram {
        return Ok(Vec::new());
    }
    let name = |number| names::hash_table("".as_ref(), number).display().to_string();
    let tables = Section::of(state)?.rows.into_iter().filter(Row::has_table);
    Ok(tables.map(|row| (name(row.number), row.length_bytes)).collect())
}

#[cfg(test)]
mod tests {
    use slmdb_manifest::MediumRecord;

    use super::*;

    fn state(part: Vec<u8>) -> StoreState {
        let medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
        let mut state = StoreState::new([1; 16], "chameleon", "bytewise", medium);
        state.next_file_number = 10;
        state.engine_section.insert(TABLES, part);
        state
    }

    fn row(number: u32, level: Level) -> Row {
        Row { number, epoch: number + 1, length_bytes: 256, level }
    }

    #[test]
    fn a_section_is_read_back() {
        let section =
            Section { shards: Some(256), rows: vec![row(7, Level::Last), row(8, Level::Upper), row(9, Level::Upper)] };
        let (number, part) = tables_part(256, &section.rows);
        assert_eq!((number, part.len()), (TABLES, 1 + 3 * ROW_BYTES));
        assert_eq!(Section::of(&state(part.clone())).unwrap(), section);
        let names: Vec<String> = own_files(&state(part)).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["0000000007.hash", "0000000008.hash", "0000000009.hash"]);
        assert_eq!(Section::of(&state(Vec::new())).unwrap(), Section::default());
    }

    #[test]
    fn what_makes_no_sense_is_corruption() {
        let part = |rows: &[Row]| tables_part(256, rows).1;
        let none = Row { epoch: 0, ..row(7, Level::Upper) };
        let mut forms = vec![
            vec![15],
            part(&[row(10, Level::Upper)]),
            part(&[row(0, Level::Last)]),
            part(&[row(7, Level::Upper), row(7, Level::Last)]),
            part(&[none]),
            part(&[Row { length_bytes: 0, ..row(7, Level::Last) }]),
            part(&[Row { length_bytes: 0, ..row(7, Level::KeySection) }]),
        ];
        let mut of_no_level = part(&[row(7, Level::Last)]);
        *of_no_level.last_mut().unwrap() = 4;
        forms.extend([of_no_level.clone(), of_no_level[..ROW_BYTES].to_vec()]);
        for form in forms {
            let told = Section::of(&state(form.clone())).unwrap_err();
            assert!(matches!(told, Error::Corruption { .. }), "{form:?}: {told}");
        }
    }
}
