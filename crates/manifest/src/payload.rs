//! States and edits as tagged fields.
//!
//! Both use one set of tags, because a state is much like the edit that would make it out of nothing. Little-endian; the
//! tables say what the value of each field is. `s` marks what a state has, `e` what an edit may have, capitals what must
//! be there exactly once, `*` what may come any number of times. Fields may come in any order; they are written in that
//! of the table.
//!
//! | tag | | field | value |
//! |----:|---|---|---|
//! | 1 | S | uuid | 16 bytes |
//! | 2 | S | engine | UTF-8 text |
//! | 3 | S | comparator | UTF-8 text: the name of the order of the keys, `bytewise` or a comparator's own (1 to 255 bytes, not beginning with `bytewise`) |
//! | 4 | S e | medium | kind u8 (1 Dram, 2 Emulated, 3 Dax), present u8 (bit 0: path, bit 1: uuid), boot id 16 bytes, pool uuid 16 bytes (zeros if absent), path: the remaining bytes |
//! | 5 | S e | next file number | u32 |
//! | 6 | S e | next generation | u64 |
//! | 7 | S e | flushed through | u64 |
//! | 8 | S E | job (last job; job, or 0) | u64 |
//! | 9 | s e | closed at sequence number | u64; absent: not closed |
//! | 10 | S e | lifetime counters | 11 × u64, in the order of [`Counters`] |
//! | 11 | s | files uuid | 16 bytes: what table files and index checkpoints carry; absent: the uuid |
//! | 12 | s | unfinished repair | present u8 (bit 1: old pool), uuid of the old pool 16 bytes (zeros if absent), uuid of the new pool 16 bytes; absent: none |
//! | 13 | s* e* | file added | number u32, length u64, entries u64, deletes u64, live u64, lowest and highest sequence number u64, created u64 (ns since 1970), length of the smallest key u32, smallest key, largest key: the remaining bytes |
//! | 14 | e | files removed | n × u32 |
//! | 15 | e | live changes | n × (file u32, change i64) |
//! | 16 | s* e* | arena added | generation u64, length u64, sealed u8 (0 or 1), last sequence number u64 (0 unless sealed) |
//! | 17 | e | arenas removed | n × u64 |
//! | 18 | s e | levels | n × (file u32, level u8): of a file or list that is added by the same record or, in an edit, was there; absent: 0, or as it was |
//! | 19 | s* e* | part of the engine's section | number u8, each once; content: the remaining bytes |
//! | 20 | s | home | of a store that has a pool: inode of its directory u64, when that was made u64 (ns since 1970; 0: unknown), openings of the pool u32; absent: unknown |
//! | 21 | s* e* | list added | as 13, of a run that lies in the pool; live is 0 |
//! | 22 | e | lists removed | n × u32 |

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use slmdb_env::FileIdentity;

use crate::edit::Edit;
use crate::encoding::{Decoded, FieldWriter, Reader, Undecodable, malformed};
use crate::state::{
    ArenaRecord, Counters, EngineSection, FileRecord, Home, LIFETIME_COUNTERS, MediumKind, MediumRecord, StoreState,
    UnfinishedRepair,
};

pub(crate) const UUID: u16 = 1;
pub(crate) const ENGINE: u16 = 2;
pub(crate) const COMPARATOR: u16 = 3;
pub(crate) const MEDIUM: u16 = 4;
pub(crate) const NEXT_FILE_NUMBER: u16 = 5;
pub(crate) const NEXT_GENERATION: u16 = 6;
pub(crate) const FLUSHED_THROUGH: u16 = 7;
pub(crate) const JOB: u16 = 8;
pub(crate) const CLOSED_AT_SEQUENCE: u16 = 9;
pub(crate) const LIFETIME: u16 = 10;
pub(crate) const FILES_UUID: u16 = 11;
pub(crate) const UNFINISHED_REPAIR: u16 = 12;
pub(crate) const FILE_ADDED: u16 = 13;
pub(crate) const FILES_REMOVED: u16 = 14;
pub(crate) const LIVE_CHANGES: u16 = 15;
pub(crate) const ARENA_ADDED: u16 = 16;
pub(crate) const ARENAS_REMOVED: u16 = 17;
pub(crate) const LEVELS: u16 = 18;
pub(crate) const ENGINE_SECTION: u16 = 19;
pub(crate) const HOME: u16 = 20;
pub(crate) const LIST_ADDED: u16 = 21;
pub(crate) const LISTS_REMOVED: u16 = 22;

const PATH_PRESENT: u8 = 1;
const UUID_PRESENT: u8 = 2;

pub(crate) fn encode_state(state: &StoreState) -> Vec<u8> {
    let mut to = FieldWriter::default();
    to.put(UUID, &[&state.uuid]);
    if state.files_uuid != state.uuid {
        to.put(FILES_UUID, &[&state.files_uuid]);
    }
    to.put(ENGINE, &[state.engine.as_bytes()]);
    to.put(COMPARATOR, &[state.comparator.as_bytes()]);
    put_medium(&mut to, &state.medium);
    to.put(NEXT_FILE_NUMBER, &[&state.next_file_number.to_le_bytes()]);
    to.put(NEXT_GENERATION, &[&state.next_generation.to_le_bytes()]);
    to.put(FLUSHED_THROUGH, &[&state.flushed_through.to_le_bytes()]);
    to.put(JOB, &[&state.last_job.to_le_bytes()]);
    put_u64(&mut to, CLOSED_AT_SEQUENCE, state.closed_at_sequence);
    put_lifetime(&mut to, &state.lifetime);
    if let Some(UnfinishedRepair { old_pool, new_pool }) = &state.unfinished_repair {
        let present = old_pool.map_or(0, |_| UUID_PRESENT);
        to.put(UNFINISHED_REPAIR, &[&[present], &old_pool.unwrap_or_default(), new_pool]);
    }
    for (&number, file) in &state.files {
        put_file(&mut to, FILE_ADDED, number, file);
    }
    for (&generation, arena) in &state.arenas {
        put_arena(&mut to, generation, arena);
    }
    put_levels(&mut to, state.runs().map(|(number, record)| (number, record.level)), &[]);
    put_engine_section(&mut to, &state.engine_section);
    if let Some(Home { directory: FileIdentity { inode, born_ns }, pool_openings }) = &state.home {
        to.put(HOME, &[&inode.to_le_bytes(), &born_ns.to_le_bytes(), &pool_openings.to_le_bytes()]);
    }
    for (&number, list) in &state.lists {
        put_file(&mut to, LIST_ADDED, number, list);
    }
    to.into_bytes()
}

pub(crate) fn encode_edit(edit: &Edit) -> Vec<u8> {
    let mut to = FieldWriter::default();
    if let Some(medium) = &edit.medium {
        put_medium(&mut to, medium);
    }
    put_list(&mut to, NEXT_FILE_NUMBER, edit.next_file_number.iter().map(|number| number.to_le_bytes()));
    put_u64(&mut to, NEXT_GENERATION, edit.next_generation);
    put_u64(&mut to, FLUSHED_THROUGH, edit.flushed_through);
    put_u64(&mut to, JOB, Some(edit.job));
    put_u64(&mut to, CLOSED_AT_SEQUENCE, edit.closed_at_sequence);
    if let Some(lifetime) = &edit.lifetime {
        put_lifetime(&mut to, lifetime);
    }
    for (number, file) in &edit.files_added {
        put_file(&mut to, FILE_ADDED, *number, file);
    }
    put_list(&mut to, FILES_REMOVED, edit.files_removed.iter().map(|number| number.to_le_bytes()));
    let live_changes = edit.live_changes.iter();
    let live_changes =
        live_changes.map(|(number, change)| number.to_le_bytes().into_iter().chain(change.to_le_bytes()));
    put_list(&mut to, LIVE_CHANGES, live_changes);
    for (generation, arena) in &edit.arenas_added {
        put_arena(&mut to, *generation, arena);
    }
    put_list(&mut to, ARENAS_REMOVED, edit.arenas_removed.iter().map(|generation| generation.to_le_bytes()));
    let added = edit.files_added.iter().chain(&edit.lists_added);
    put_levels(&mut to, added.map(|(number, record)| (*number, record.level)), &edit.level_changes);
    put_engine_section(&mut to, &edit.engine_section);
    for (number, list) in &edit.lists_added {
        put_file(&mut to, LIST_ADDED, *number, list);
    }
    put_list(&mut to, LISTS_REMOVED, edit.lists_removed.iter().map(|number| number.to_le_bytes()));
    to.into_bytes()
}

fn put_u64(to: &mut FieldWriter, tag: u16, value: Option<u64>) {
    if let Some(value) = value {
        to.put(tag, &[&value.to_le_bytes()]);
    }
}

/// A field with these items, unless there are none.
fn put_list(to: &mut FieldWriter, tag: u16, items: impl Iterator<Item = impl IntoIterator<Item = u8>>) {
    let bytes: Vec<u8> = items.flatten().collect();
    if !bytes.is_empty() {
        to.put(tag, &[&bytes]);
    }
}

/// The levels of new files that are not on level 0, and the changes.
fn put_levels(to: &mut FieldWriter, added: impl Iterator<Item = (u32, u8)>, changes: &[(u32, u8)]) {
    let levels = added.filter(|&(_, level)| level > 0).chain(changes.iter().copied());
    put_list(to, LEVELS, levels.map(|(number, level)| number.to_le_bytes().into_iter().chain([level])));
}

fn put_engine_section(to: &mut FieldWriter, section: &EngineSection) {
    for (part, bytes) in section {
        to.put(ENGINE_SECTION, &[&[*part], bytes]);
    }
}

fn put_medium(to: &mut FieldWriter, medium: &MediumRecord) {
    let path = medium.pool_path.as_deref().map(|path| path.as_os_str().as_bytes());
    let present = path.map_or(0, |_| PATH_PRESENT) | medium.pool_uuid.map_or(0, |_| UUID_PRESENT);
    let uuid = medium.pool_uuid.unwrap_or_default();
    to.put(MEDIUM, &[&[medium.kind as u8, present], &medium.boot_id, &uuid, path.unwrap_or_default()]);
}

fn put_lifetime(to: &mut FieldWriter, lifetime: &Counters) {
    put_list(to, LIFETIME, lifetime.named().into_iter().map(|(_, value)| value.to_le_bytes()));
}

/// `tag`: that of a table file, or of a list.
fn put_file(to: &mut FieldWriter, tag: u16, number: u32, file: &FileRecord) {
    let key_length = u32::try_from(file.smallest_key.len()).unwrap_or(u32::MAX);
    to.put(
        tag,
        &[
            &number.to_le_bytes(),
            &file.length_bytes.to_le_bytes(),
            &file.entries.to_le_bytes(),
            &file.deletes.to_le_bytes(),
            &file.live_keys.to_le_bytes(),
            &file.lowest_sequence.to_le_bytes(),
            &file.highest_sequence.to_le_bytes(),
            &file.created_unix_ns.to_le_bytes(),
            &key_length.to_le_bytes(),
            &file.smallest_key,
            &file.largest_key,
        ],
    );
}

fn put_arena(to: &mut FieldWriter, generation: u64, arena: &ArenaRecord) {
    let sealed = [u8::from(arena.sealed_last_sequence.is_some())];
    let last = arena.sealed_last_sequence.unwrap_or_default();
    to.put(ARENA_ADDED, &[&generation.to_le_bytes(), &arena.length_bytes.to_le_bytes(), &sealed, &last.to_le_bytes()]);
}

/// A state; not yet checked for plausibility.
pub(crate) fn decode_state(bytes: &[u8]) -> Decoded<StoreState> {
    let mut fields = Fields::decode(bytes)?;
    if !fields.take_levels()?.is_empty() {
        return malformed("the level of a file that is not there");
    }
    let (files, lists) = (by_number(fields.files_added)?, by_number(fields.lists_added)?);
    let mut arenas = BTreeMap::new();
    for (generation, arena) in fields.arenas_added {
        if arenas.insert(generation, arena).is_some() {
            return malformed(format!("arena {generation} twice"));
        }
    }
    let removes = fields.files_removed.is_some() || fields.lists_removed.is_some() || fields.arenas_removed.is_some();
    if removes || fields.live_changes.is_some() {
        return malformed("a state with changes in it");
    }
    let uuid = present(fields.uuid, "uuid")?;
    Ok(StoreState {
        uuid,
        files_uuid: fields.files_uuid.unwrap_or(uuid),
        engine: present(fields.engine, "engine")?,
        comparator: present(fields.comparator, "comparator")?,
        medium: present(fields.medium, "medium")?,
        files,
        lists,
        arenas,
        next_file_number: present(fields.next_file_number, "next file number")?,
        next_generation: present(fields.next_generation, "next generation")?,
        flushed_through: present(fields.flushed_through, "flushed through")?,
        last_job: present(fields.job, "last job")?,
        closed_at_sequence: fields.closed_at_sequence,
        lifetime: present(fields.lifetime, "lifetime counters")?,
        unfinished_repair: fields.unfinished_repair,
        home: fields.home,
        engine_section: fields.engine_section,
    })
}

fn by_number(records: Vec<(u32, FileRecord)>) -> Decoded<BTreeMap<u32, FileRecord>> {
    let mut by_number = BTreeMap::new();
    for (number, record) in records {
        if by_number.insert(number, record).is_some() {
            return malformed(format!("file {number} twice"));
        }
    }
    Ok(by_number)
}

/// An edit; whether it fits is another question.
pub(crate) fn decode_edit(bytes: &[u8]) -> Decoded<Edit> {
    let mut fields = Fields::decode(bytes)?;
    let level_changes = fields.take_levels()?;
    if fields.uuid.is_some() || fields.files_uuid.is_some() || fields.engine.is_some() || fields.comparator.is_some() {
        return malformed("an edit with another identity");
    }
    if fields.unfinished_repair.is_some() || fields.home.is_some() {
        return malformed("an edit with an unfinished repair, or another home");
    }
    Ok(Edit {
        job: present(fields.job, "job")?,
        files_added: fields.files_added,
        files_removed: fields.files_removed.unwrap_or_default(),
        lists_added: fields.lists_added,
        lists_removed: fields.lists_removed.unwrap_or_default(),
        live_changes: fields.live_changes.unwrap_or_default(),
        arenas_added: fields.arenas_added,
        arenas_removed: fields.arenas_removed.unwrap_or_default(),
        next_file_number: fields.next_file_number,
        next_generation: fields.next_generation,
        flushed_through: fields.flushed_through,
        closed_at_sequence: fields.closed_at_sequence,
        lifetime: fields.lifetime,
        medium: fields.medium,
        level_changes,
        engine_section: fields.engine_section,
    })
}

fn present<T>(field: Option<T>, name: &str) -> Decoded<T> {
    field.ok_or_else(|| Undecodable::Malformed(format!("no {name}")))
}

/// All fields there are.
#[derive(Default)]
struct Fields {
    uuid: Option<[u8; 16]>,
    files_uuid: Option<[u8; 16]>,
    engine: Option<String>,
    comparator: Option<String>,
    medium: Option<MediumRecord>,
    next_file_number: Option<u32>,
    next_generation: Option<u64>,
    flushed_through: Option<u64>,
    job: Option<u64>,
    closed_at_sequence: Option<u64>,
    lifetime: Option<Counters>,
    unfinished_repair: Option<UnfinishedRepair>,
    files_added: Vec<(u32, FileRecord)>,
    files_removed: Option<Vec<u32>>,
    lists_added: Vec<(u32, FileRecord)>,
    lists_removed: Option<Vec<u32>>,
    live_changes: Option<Vec<(u32, i64)>>,
    arenas_added: Vec<(u64, ArenaRecord)>,
    arenas_removed: Option<Vec<u64>>,
    levels: Option<Vec<(u32, u8)>>,
    engine_section: EngineSection,
    home: Option<Home>,
}

impl Fields {
    fn decode(bytes: &[u8]) -> Decoded<Fields> {
        let (mut payload, mut fields) = (Reader::new(bytes), Fields::default());
        while let Some((tag, mut value)) = payload.field()? {
            match fields.take(tag, &mut value).and_then(|()| value.end()) {
                Err(Undecodable::Malformed(what)) => return malformed(format!("field {tag}: {what}")),
                other => other?,
            }
        }
        Ok(fields)
    }

    /// Gives files that are added their levels. Returns the levels of others.
    fn take_levels(&mut self) -> Decoded<Vec<(u32, u8)>> {
        let levels = self.levels.take().unwrap_or_default();
        let mut of_added: BTreeMap<u32, u8> = BTreeMap::new();
        let added = || self.files_added.iter().chain(&self.lists_added);
        let is_added: BTreeSet<u32> = added().map(|(number, _)| *number).collect();
        let mut of_others = Vec::new();
        for (number, level) in levels {
            if !is_added.contains(&number) {
                of_others.push((number, level));
            } else if level == 0 || of_added.insert(number, level).is_some() {
                return malformed(format!("the level of file {number}"));
            }
        }
        for (number, file) in self.files_added.iter_mut().chain(&mut self.lists_added) {
            file.level = of_added.get(number).copied().unwrap_or(0);
        }
        Ok(of_others)
    }

    fn take(&mut self, tag: u16, value: &mut Reader<'_>) -> Decoded<()> {
        match tag {
            UUID => once(&mut self.uuid, value.array()),
            FILES_UUID => once(&mut self.files_uuid, value.array()),
            ENGINE => once(&mut self.engine, value.text()),
            COMPARATOR => once(&mut self.comparator, value.text()),
            MEDIUM => once(&mut self.medium, medium(value)),
            NEXT_FILE_NUMBER => once(&mut self.next_file_number, value.u32()),
            NEXT_GENERATION => once(&mut self.next_generation, value.u64()),
            FLUSHED_THROUGH => once(&mut self.flushed_through, value.u64()),
            JOB => once(&mut self.job, value.u64()),
            CLOSED_AT_SEQUENCE => once(&mut self.closed_at_sequence, value.u64()),
            LIFETIME => once(&mut self.lifetime, lifetime(value)),
            UNFINISHED_REPAIR => once(&mut self.unfinished_repair, unfinished_repair(value)),
            FILE_ADDED => {
                self.files_added.push((value.u32()?, file(value)?));
                Ok(())
            }
            FILES_REMOVED => once(&mut self.files_removed, value.list(Reader::u32)),
            LIST_ADDED => {
                self.lists_added.push((value.u32()?, file(value)?));
                Ok(())
            }
            LISTS_REMOVED => once(&mut self.lists_removed, value.list(Reader::u32)),
            LIVE_CHANGES => once(&mut self.live_changes, value.list(|value| Ok((value.u32()?, value.i64()?)))),
            ARENA_ADDED => {
                self.arenas_added.push((value.u64()?, arena(value)?));
                Ok(())
            }
            ARENAS_REMOVED => once(&mut self.arenas_removed, value.list(Reader::u64)),
            LEVELS => once(&mut self.levels, value.list(|value| Ok((value.u32()?, value.u8()?)))),
            ENGINE_SECTION => match self.engine_section.insert(value.u8()?, value.take_rest().to_vec()) {
                None => Ok(()),
                Some(_) => malformed("there twice"),
            },
            HOME => once(&mut self.home, home(value)),
            unknown => Err(Undecodable::Unknown(format!("field {unknown}"))),
        }
    }
}

fn once<T>(field: &mut Option<T>, value: Decoded<T>) -> Decoded<()> {
    if field.replace(value?).is_some() { malformed("there twice") } else { Ok(()) }
}

fn medium(value: &mut Reader<'_>) -> Decoded<MediumRecord> {
    let kind = match value.u8()? {
        1 => MediumKind::Dram,
        2 => MediumKind::Emulated,
        3 => MediumKind::Dax,
        unknown => return Err(Undecodable::Unknown(format!("medium {unknown}"))),
    };
    let present = value.u8()?;
    if present & !(PATH_PRESENT | UUID_PRESENT) != 0 {
        return malformed(format!("presence bits {present:#x}"));
    }
    let (boot_id, uuid) = (value.array()?, value.array()?);
    let path = value.take_rest();
    let (has_path, has_uuid) = (present & PATH_PRESENT != 0, present & UUID_PRESENT != 0);
    if (!has_path && !path.is_empty()) || (!has_uuid && uuid != [0; 16]) {
        return malformed("a pool that is said to be absent");
    }
    Ok(MediumRecord {
        kind,
        pool_path: has_path.then(|| PathBuf::from(OsStr::from_bytes(path))),
        pool_uuid: has_uuid.then_some(uuid),
        boot_id,
    })
}

fn home(value: &mut Reader<'_>) -> Decoded<Home> {
    let directory = FileIdentity { inode: value.u64()?, born_ns: value.u64()? };
    Ok(Home { directory, pool_openings: value.u32()? })
}

fn unfinished_repair(value: &mut Reader<'_>) -> Decoded<UnfinishedRepair> {
    let (present, old_pool, new_pool) = (value.u8()?, value.array()?, value.array()?);
    let old_pool = match present {
        0 if old_pool == [0; 16] => None,
        UUID_PRESENT => Some(old_pool),
        _ => return malformed(format!("presence bits {present:#x} of an old pool")),
    };
    Ok(UnfinishedRepair { old_pool, new_pool })
}

fn lifetime(value: &mut Reader<'_>) -> Decoded<Counters> {
    let mut values = [0; LIFETIME_COUNTERS];
    for counter in &mut values {
        *counter = value.u64()?;
    }
    Ok(Counters::from_values(values))
}

fn file(value: &mut Reader<'_>) -> Decoded<FileRecord> {
    Ok(FileRecord {
        length_bytes: value.u64()?,
        entries: value.u64()?,
        deletes: value.u64()?,
        live_keys: value.u64()?,
        lowest_sequence: value.u64()?,
        highest_sequence: value.u64()?,
        created_unix_ns: value.u64()?,
        smallest_key: {
            let length = value.u32()?;
            value.take(length as usize)?.to_vec()
        },
        largest_key: value.take_rest().to_vec(),
        level: 0,
    })
}

fn arena(value: &mut Reader<'_>) -> Decoded<ArenaRecord> {
    let length_bytes = value.u64()?;
    let sealed_last_sequence = match (value.u8()?, value.u64()?) {
        (0, 0) => None,
        (1, last) => Some(last),
        (sealed, last) => return malformed(format!("sealed {sealed}, last sequence number {last}")),
    };
    Ok(ArenaRecord { sealed_last_sequence, length_bytes })
}

#[cfg(test)]
mod tests;
