//! [`Manifest`]: the file being written, and reading one back.
//!
//! A store is opened for writing by reading its MANIFEST and *renewing* it: the state is written as the first record of
//! a new file, which then takes the name. So nobody ever appends behind a torn end, and the file does not grow for ever.
//!
//! A failed append stops the log for good ([`Error::ReadOnly`]; INV-27). After a failed sync nobody can say what is on the disk:
//! the system may have dropped the very pages and report success the next time, and a record appended behind a lost one
//! would make the log look damaged. Reopening reads what is there and starts a new file. One failure is harmless and
//! stays so: the space of a record is allocated before any of it is written, and a full disk shows itself there.

use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Env, Error, File, OpenMode, Result};

use crate::edit::Edit;
use crate::encoding::{Decoded, Undecodable};
use crate::format::{self, Found, HEADER_BYTES, Header, RecordKind, Seed};
use crate::payload;
use crate::state::StoreState;

/// The name of the MANIFEST in a store's directory.
pub const FILE_NAME: &str = "MANIFEST";
/// The name of one that is being written. Left behind by a crash it means nothing, and the next one replaces it.
pub const TEMPORARY_FILE_NAME: &str = "MANIFEST.tmp";

/// A log is long when it has so many bytes, and so many times as many as when it was begun.
const LONG_BYTES_MIN: u64 = 64 << 10;
const LONG_TIMES: u64 = 8;
/// On a full disk it is long sooner.
const LONG_BYTES_MIN_WHEN_FULL: u64 = 16 << 10;
const LONG_TIMES_WHEN_FULL: u64 = 2;
/// So small a part is no [excess](Excess::Any).
const ANY_PART: u64 = 8;

/// What a log has beyond what its state takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// A multiple of that.
    Usual,
    /// More than a full disk should be asked for.
    OnFullDisk,
    /// Anything that is worth writing a new one, where its space is needed at once.
    Any,
}

/// The MANIFEST of a store that is open for writing.
#[derive(Debug)]
pub struct Manifest {
    file: Arc<dyn File>,
    seed: Seed,
    state: StoreState,
    /// Where the next record goes.
    end: u64,
    /// How long it may become in space that is its own already.
    reserved_end: u64,
    /// How long it was when it was begun.
    begun_bytes: u64,
    /// From this length on it is long.
    long_bytes: u64,
    next_record_number: u64,
    /// Its name is not durable yet, so nothing is appended (INV-29): see [`Manifest::settle`].
    is_unsettled: bool,
    /// Why nothing is written any more.
    stopped: Option<String>,
}

/// What [`Manifest::read`] finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The state after all edits.
    pub state: StoreState,
    /// How many edits were applied.
    pub edits: u64,
    /// Where the log ended although the file goes on: what an append that a crash cut short leaves. Nothing that was
    /// acknowledged is missing then, unless the last record was damaged later, which looks the same.
    pub torn_tail: Option<u64>,
    /// The file's length in bytes.
    pub length_bytes: u64,
}

impl Manifest {
    /// Makes the MANIFEST of a new store in an existing directory. [`Error::Invalid`] if there is one already, or if the
    /// state contradicts itself. Durable on return; see [`Manifest::rewrite`] for what a failure leaves.
    pub fn create(env: &dyn Env, directory: &Path, state: &StoreState) -> Result<Manifest> {
        if Manifest::exists(env, directory)? {
            return Err(Error::invalid(format!("{} already holds a store", directory.display())));
        }
        Manifest::rewrite(env, directory, state)
    }

    /// Writes `state` into a new MANIFEST, which takes the place of the one there, if any. Durable on return. After a
    /// failure the old one or the new one is there, whole; which of them in a power cut is open, so a [`Manifest`] that
    /// was open on the old one must not be used any more (that is what [`Manifest::renew`] is for).
    pub fn rewrite(env: &dyn Env, directory: &Path, state: &StoreState) -> Result<Manifest> {
        let mut manifest = Manifest::prepare(env, directory, state)?.named(env, directory)?;
        manifest.settle(env)?;
        Ok(manifest)
    }

    /// Whether the directory has a MANIFEST.
    pub fn exists(env: &dyn Env, directory: &Path) -> Result<bool> {
        env.exists(&directory.join(FILE_NAME))
    }

    /// Reads the MANIFEST of a store; changes nothing. Bytes that are wrong are [`Error::Corruption`] with their place,
    /// those of a newer version [`Error::Unsupported`]; no MANIFEST at all is [`Error::Io`] (not found). Holds the
    /// state and the longest record in memory.
    pub fn read(env: &dyn Env, directory: &Path) -> Result<Reading> {
        Manifest::read_file(env, &directory.join(FILE_NAME))
    }

    /// As [`Manifest::read`], of a MANIFEST that has another name.
    pub fn read_file(env: &dyn Env, path: &Path) -> Result<Reading> {
        let reading = Manifest::read_once(env, path)?;
        if reading.torn_tail.is_none() {
            return Ok(reading);
        }
        // What a crash cut short is torn every time it is read. A record that was only read wrong is whole the second time, and
        // its checksum says so.
        let again = Manifest::read_once(env, path)?;
        Ok(if again.edits >= reading.edits { again } else { reading })
    }

    fn read_once(env: &dyn Env, path: &Path) -> Result<Reading> {
        let file = env.open_file(path, OpenMode::Read)?;
        let length_bytes = file.length_bytes()?;
        let header = Header::read(&*file)?;
        let (mut offset, mut edits, mut state) = (HEADER_BYTES as u64, 0, None);
        loop {
            let number = if state.is_some() { edits + 1 } else { 0 };
            let (kind, payload, end) = match format::read_record(&*file, header.seed(), number, offset, length_bytes)? {
                Found::Record { kind, payload, end } => (kind, payload, end),
                found => {
                    let torn_tail = matches!(found, Found::Torn).then_some(offset);
                    let nothing = || Error::corruption(file.path(), offset, "the MANIFEST has no state");
                    return Ok(Reading { state: state.ok_or_else(nothing)?, edits, torn_tail, length_bytes });
                }
            };
            let taken = match &mut state {
                None => first_state(&header, kind, &payload).map(|first| state = Some(first)),
                Some(state) => next_edit(state, kind, &payload).map(|()| edits += 1),
            };
            taken.map_err(|wrong| match wrong {
                Undecodable::Malformed(what) => {
                    Error::corruption(file.path(), offset, format!("record {number} of the MANIFEST: {what}"))
                }
                Undecodable::Unknown(what) => Error::Unsupported {
                    what: format!("record {number} of the MANIFEST has {what}, which this build does not know"),
                    file: Some(file.path().to_path_buf()),
                },
            })?;
            offset = end;
        }
    }

    /// Makes durable what was read from the MANIFEST of a store whose last user may have been killed, where there is no space to
    /// [rewrite](Manifest::rewrite) it: the edit that was being appended may be in the system's memory alone, and so may the file's
    /// name. The edit's bytes are written over with the same, which takes no space. (Those before it were durable before it was
    /// written.) If a sync of it has failed, and the system has forgotten that the file became longer, that stays so.
    pub fn make_durable(env: &dyn Env, directory: &Path, reading: &Reading) -> Result<()> {
        if reading.edits > 0 {
            let file = env.open_file(&directory.join(FILE_NAME), OpenMode::ReadWrite)?;
            let (offset, record) = Manifest::last_edit(&*file, reading)?;
            file.write_at(&record, offset)?;
            file.sync_data()?;
        }
        env.sync_directory(directory)
    }

    /// The record of the last edit that was read, made again of what its checksums vouch for, and its place.
    fn last_edit(file: &dyn File, reading: &Reading) -> Result<(u64, Vec<u8>)> {
        let seed = Header::read(file)?.seed();
        let (mut offset, mut number) = (HEADER_BYTES as u64, 0);
        while let Found::Record { payload, end, .. } =
            format::read_record(file, seed, number, offset, reading.length_bytes)?
        {
            if number == reading.edits {
                let record = format::encode_record(seed, number, RecordKind::Edit, payload);
                return record
                    .map(|record| (offset, record))
                    .ok_or_else(|| Error::invalid("an edit that is too large"));
            }
            (offset, number) = (end, number + 1);
        }
        Err(Error::corruption(file.path(), offset, "the MANIFEST was read twice, and not the same both times"))
    }

    /// Applies an edit and makes it durable.
    ///
    /// An edit that does not fit the state is [`Error::Invalid`], and a disk that is full before anything is written is
    /// [`Error::Full`]: nothing has happened then. After any other failure the edit may be in the file or not, `state`
    /// is the one before it, and every further call is [`Error::ReadOnly`]; but for what
    /// [may be tried again](Error::may_be_tried_again).
    ///
    /// REQUIRES: it is [settled](Manifest::settle), else that is [`Error::Invalid`].
    pub fn append(&mut self, edit: &Edit) -> Result<()> {
        self.check_writable()?;
        if self.is_unsettled {
            return Err(Error::invalid("the name of the MANIFEST is not durable: nothing may be appended to it yet"));
        }
        let new_live = self.state.check_edit(edit);
        let new_live = new_live.map_err(|what| Error::invalid(format!("not an edit for the MANIFEST: {what}")))?;
        let number = self.next_record_number;
        let record = format::encode_record(self.seed, number, RecordKind::Edit, payload::encode_edit(edit));
        let record = record.ok_or_else(|| Error::invalid("the edit is too large for a MANIFEST"))?;
        match self.file.allocate(self.end, record.len() as u64) {
            Err(error) if error.may_be_tried_again() => return Err(error),
            allocated => self.or_stop(allocated)?,
        }
        let written = self.file.write_at(&record, self.end).and_then(|()| self.file.sync_data());
        self.or_stop(written)?;
        self.end += record.len() as u64;
        self.next_record_number += 1;
        self.state.apply_checked(edit, &new_live);
        Ok(())
    }

    /// Puts a new file that holds just the present state in the place of a log that has grown long. After a failure this
    /// log is stopped like after a failed append, because its file may have lost its name. The exceptions are a disk that is too
    /// full for the new file ([`Error::Full`]) and a system that lacks what opening it takes: nothing has happened then, or the
    /// new file has the name, and only has to be [settled](Manifest::settle).
    pub fn renew(&mut self, env: &dyn Env) -> Result<()> {
        self.check_writable()?;
        let path = self.file.path().to_path_buf();
        let directory = path.parent().unwrap_or(Path::new(""));
        let prepared = match Manifest::prepare(env, directory, &self.state) {
            Err(error) if error.may_be_tried_again() => return Err(error),
            prepared => self.or_stop(prepared)?,
        };
        let renewed = prepared.named(env, directory);
        *self = self.or_stop(renewed)?;
        self.settle(env)
    }

    /// Makes the name of a new file durable, if it is not yet: a [renewal](Manifest::renew) may have come no further. Nothing is
    /// appended before: a power cut could bring back the file that had the name, without it. A [passing lack](Error::is_passing_lack): the
    /// directory was not synced, and it may be tried again.
    pub fn settle(&mut self, env: &dyn Env) -> Result<()> {
        if !self.is_unsettled {
            return Ok(());
        }
        let directory = self.file.path().parent().unwrap_or(Path::new("")).to_path_buf();
        match env.sync_directory(&directory) {
            Err(error) if error.is_passing_lack() => return Err(error),
            synced => self.or_stop(synced)?,
        }
        self.is_unsettled = false;
        Ok(())
    }

    /// Whether the log has so much beyond what its state takes.
    pub fn is_long(&self, excess: Excess) -> bool {
        let long_when_full_bytes = LONG_BYTES_MIN_WHEN_FULL.max(LONG_TIMES_WHEN_FULL * self.begun_bytes);
        match excess {
            Excess::Usual => self.end >= self.long_bytes,
            Excess::OnFullDisk => self.end >= self.long_bytes.min(long_when_full_bytes),
            Excess::Any => self.end - self.end / ANY_PART > payload::encode_state(&self.state).len() as u64,
        }
    }

    /// [Renews](Manifest::renew) a log that [is long](Manifest::is_long); says whether it has. What there is
    /// no space for now, or what lacks something else, is tried again when the log is a quarter longer; or at the next record that finds
    /// the disk full.
    pub fn renew_if_long(&mut self, env: &dyn Env, excess: Excess) -> Result<bool> {
        if !self.is_long(excess) {
            return Ok(false);
        }
        match self.renew(env) {
            // Then there is the new file, and it is short.
            Err(error) if error.may_be_tried_again() && self.is_unsettled => Ok(true),
            Err(error) if error.may_be_tried_again() && self.check_writable().is_ok() => {
                self.long_bytes = self.long_bytes.max(self.end + self.end / 4);
                Ok(false)
            }
            renewed => renewed.map(|()| true),
        }
    }

    /// Sees to it that records of so many bytes more find their space, whatever else fills the disk. [`Error::Full`]: they may not.
    /// (Where the file system can't set space aside, nobody can say, and this is `Ok`.)
    pub fn reserve(&mut self, more_bytes: u64) -> Result<()> {
        let wanted_end = self.end.saturating_add(more_bytes);
        if wanted_end > self.reserved_end {
            self.file.reserve(wanted_end)?;
            self.reserved_end = wanted_end;
        }
        Ok(())
    }

    /// How many bytes of records find their space for certain; see [`Manifest::reserve`].
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved_end.saturating_sub(self.end)
    }

    /// The state with all edits applied that were appended.
    pub fn state(&self) -> &StoreState {
        &self.state
    }

    /// How long the file is, in bytes.
    pub fn length_bytes(&self) -> u64 {
        self.end
    }

    /// Writes a new file under its temporary name, and syncs it. The MANIFEST in the directory is not touched.
    fn prepare(env: &dyn Env, directory: &Path, state: &StoreState) -> Result<Manifest> {
        state.check().map_err(|what| Error::invalid(format!("not a state for a MANIFEST: {what}")))?;
        let mut nonce = [0; 8];
        env.random_bytes(&mut nonce);
        let header = Header { uuid: state.uuid, nonce };
        let seed = header.seed();
        let record = format::encode_record(seed, 0, RecordKind::State, payload::encode_state(state));
        let record = record.ok_or_else(|| Error::invalid("the state is too large for a MANIFEST"))?;
        let bytes = [&header.encode(), record.as_slice()].concat();

        let temporary = directory.join(TEMPORARY_FILE_NAME);
        let file = env.open_file(&temporary, OpenMode::CreateOrTruncate)?;
        if let Err(error) = file.write_at(&bytes, 0) {
            // It must not take space, least of all on a full disk. The first failure is the one to tell.
            let _ = env.remove_file(&temporary);
            return Err(error);
        }
        file.sync_data()?;
        let end = bytes.len() as u64;
        let (begun_bytes, long_bytes) = (end, LONG_BYTES_MIN.max(LONG_TIMES * end));
        Ok(Manifest {
            file,
            seed,
            state: state.clone(),
            end,
            reserved_end: end,
            begun_bytes,
            long_bytes,
            next_record_number: 1,
            is_unsettled: false,
            stopped: None,
        })
    }

    /// Gives a prepared file the name that counts, which is to be [settled](Manifest::settle).
    fn named(self, env: &dyn Env, directory: &Path) -> Result<Manifest> {
        let path = directory.join(FILE_NAME);
        env.rename(self.file.path(), &path)?;
        // Opened again so that errors name the file as it is called now. If nothing can be opened just now, they name it wrongly.
        let file = match env.open_file(&path, OpenMode::ReadWrite) {
            Err(error) if error.is_passing_lack() => self.file,
            file => file?,
        };
        Ok(Manifest { file, is_unsettled: true, ..self })
    }

    /// Whether edits are still taken; if not, the [`Error::ReadOnly`] that says why.
    pub fn check_writable(&self) -> Result<()> {
        match &self.stopped {
            None => Ok(()),
            Some(cause) => Err(Error::ReadOnly { cause: cause.clone() }),
        }
    }

    fn or_stop<T>(&mut self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.stopped = Some(format!("the MANIFEST could not be written: {error}")))
    }
}

fn first_state(header: &Header, kind: u32, bytes: &[u8]) -> Decoded<StoreState> {
    check_kind(kind, RecordKind::State)?;
    let state = payload::decode_state(bytes)?;
    if state.uuid != header.uuid {
        return Err(Undecodable::Malformed("the uuid is not that of the file's header".to_string()));
    }
    state.check().map_err(Undecodable::Malformed)?;
    Ok(state)
}

fn next_edit(state: &mut StoreState, kind: u32, bytes: &[u8]) -> Decoded<()> {
    check_kind(kind, RecordKind::Edit)?;
    state.apply(&payload::decode_edit(bytes)?).map_err(Undecodable::Malformed)
}

fn check_kind(kind: u32, expected: RecordKind) -> Decoded<()> {
    match kind {
        _ if kind == expected as u32 => Ok(()),
        _ if kind == RecordKind::State as u32 => Err(Undecodable::Malformed("a state where an edit should be".into())),
        _ if kind == RecordKind::Edit as u32 => Err(Undecodable::Malformed("an edit where the state should be".into())),
        unknown => Err(Undecodable::Unknown(format!("kind {unknown}"))),
    }
}
