//! Verification: everything in the store, checked against everything else.
//!
//! - Every table file from end to end ([`FileVerifier`]).
//! - The index's own structure: fences, order, levels, links; no block is leaked.
//! - Every entry of every table file against the index. The index points to it, or to something newer, or something
//!   newer deleted the key. Older versions, which flushes write for snapshots, are passed over: the newest version of
//!   the key stands beside them.
//! - The number of keys in the index against the live counts of the MANIFEST.
//! - What the index keeps for each table file in the pool: key segments, all parts, and their checksums.
//! - The index checkpoints: every chunk.
//! - The directory and the pool's extents against the MANIFEST.
//!
//! Flushes wait meanwhile. Reads and writes don't.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use slmdb_engine::files::file_names as names;
use slmdb_engine::files::file_names::FileKind;
use slmdb_engine::files::file_verifier::FileVerifier;
use slmdb_engine::files::location::Location;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::{VerifyProgress, VerifyReport};
use slmdb_env::{Error, Result};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, FileRecord};
use slmdb_sync::scheduled::MutexGuard;
use slmdb_table::{CheckpointStream, EntryKind, KeySection, Place};

use crate::manifest_section::Section;
use crate::recovery::rebuild::open_checkpoint;
use crate::state::SlmState;

/// Checks everything there is against everything else.
pub(crate) struct Verifier {
    pub(crate) files: FileVerifier,
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<SlmState>,
}

impl Verifier {
    /// See [`slmdb_engine::Engine::verify`].
    pub(crate) fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        let _agreement = self.agreement()?;
        let files = self.files.catalog.lock().state().files.clone();
        let mut report = VerifyReport::default();
        self.store.writes.verify_memtables(&mut report);
        report.findings.extend(self.state.index.pool.verify());
        report.findings.extend(self.state.index.keys.verify());

        let keys = self.verify_tables(&files, &mut report, progress);
        let mut deleted_at = newest_deletes(&keys, &mut report);
        deleted_at.dropped_through = Section::of(self.files.catalog.lock().state())?.deletes_dropped_through;
        let mut live = BTreeMap::new();
        for (&number, Keys { section, .. }) in &keys {
            live.insert(number, self.verify_entries(number, section, &deleted_at, &mut report)?);
        }
        self.verify_counts(&files, &live, &mut report)?;
        self.verify_directory(&files, &keys, &mut report)?;
        self.verify_checkpoints(&mut report)?;
        self.files.limit_findings(&mut report);
        Ok(report)
    }

    /// Waits until no job is between its first swing and its commit, and keeps it so. Fails if a job finds no space,
    /// because it may wait for that without end, and if a job was given up in between.
    /// LOCKS: memtables, indexing (tried); indexing is held by what is returned
    fn agreement(&self) -> Result<MutexGuard<'_, bool>> {
        self.store.writes.take_from_jobs(|| match self.state.index.indexing.try_lock() {
            Some(agreement) if *agreement => {
                let what = "the index is ahead of the MANIFEST since a job was given up; it can be verified when the store \
                            has been opened again";
                Err(Error::ReadOnly { cause: what.into() })
            }
            agreement => Ok(agreement),
        })
    }

    /// Reads every table file. Returns the key sections of those that have a readable one.
    fn verify_tables(
        &self,
        files: &BTreeMap<u32, FileRecord>,
        report: &mut VerifyReport,
        progress: &mut dyn FnMut(VerifyProgress),
    ) -> BTreeMap<u32, Keys> {
        let mut keys = BTreeMap::new();
        self.files.verify_tables(files, report, progress, |number, reader, report| match reader.key_section() {
            Ok(section) => {
                let count = reader.properties().entries - reader.properties().older_versions;
                keys.insert(number, Keys { section, count });
            }
            Err(error) => report.findings.push(error),
        });
        keys
    }

    /// Compares every entry of one file with the index; returns how many puts the index points to.
    fn verify_entries(
        &self,
        number: u32,
        section: &KeySection,
        deleted_at: &Deletes,
        report: &mut VerifyReport,
    ) -> Result<u64> {
        let mut live = 0;
        report.entries_checked += section.len();
        for entry in section.newest_entries() {
            // A broken key section has been reported already.
            let Ok(entry) = entry else { break };
            let in_index = match self.state.index.keys.get(entry.key) {
                Ok(in_index) => in_index,
                Err(error) => {
                    report.findings.push(error);
                    continue;
                }
            };
            let wrong = match in_index {
                Some(found) if found.file == number => {
                    live += 1;
                    points_elsewhere(found, entry.sequence, entry.kind, entry.place)
                }
                // At the same number: a compaction has moved it, and this file is on its way out.
                Some(found) => (found.sequence < entry.sequence).then(|| {
                    format!("the index points to the older sequence number {} in file {}", found.sequence, found.file)
                }),
                None => {
                    let deleted =
                        deleted_at.newest.get(entry.key).copied().unwrap_or(0).max(deleted_at.dropped_through);
                    (entry.kind == EntryKind::Put && deleted < entry.sequence)
                        .then(|| "the index does not know its key, and nothing newer deletes it".to_string())
                }
            };
            if let Some(wrong) = wrong {
                let what = format!(
                    "entry with sequence number {} (key {}): {wrong}",
                    entry.sequence,
                    entry.key.escape_ascii()
                );
                let path = names::table(&self.files.context.directory, number);
                report.findings.push(Error::corruption(path, u64::from(entry.place.offset), what));
            }
        }
        Ok(live)
    }

    /// Compares the live counts of the MANIFEST with what was counted, and the index's keys with their sum.
    fn verify_counts(
        &self,
        files: &BTreeMap<u32, FileRecord>,
        live: &BTreeMap<u32, u64>,
        report: &mut VerifyReport,
    ) -> Result<()> {
        let manifest = self.files.context.directory.join(MANIFEST_NAME);
        for (number, &counted) in live {
            let recorded = files.get(number).map_or(0, |file| file.live_keys);
            if recorded != counted {
                let what =
                    format!("the MANIFEST says that {recorded} entries of table file {number} are live; {counted} are");
                report.findings.push(Error::corruption(&manifest, 0, what));
            }
        }
        report.index_keys_checked = self.state.index.keys.count()?;
        let counted: u64 = live.values().sum();
        if report.index_keys_checked != counted {
            let what =
                format!("the index has {} keys, the table files {counted} live entries", report.index_keys_checked);
            report.findings.push(Error::corruption(self.state.index.pool.path(), 0, what));
        }
        Ok(())
    }

    /// Reads the index checkpoints of the MANIFEST from end to end, and finds others that belong to nobody.
    fn verify_checkpoints(&self, report: &mut VerifyReport) -> Result<()> {
        let listed = || Ok(Section::of(self.files.catalog.lock().state())?.checkpoints);
        for checkpoint in listed()? {
            let checked = open_checkpoint(
                &self.files.context.options,
                &self.files.context.directory,
                self.files.context.files_uuid,
                &checkpoint,
            )
            .and_then(|reader| {
                let mut stream = CheckpointStream::new(reader);
                while stream.advance()? {}
                Ok(())
            });
            match checked {
                // A newer one may have taken its place meanwhile.
                Err(error) if listed()?.contains(&checkpoint) => report.findings.push(error),
                _ => {}
            }
        }
        let oldest = listed()?.first().map_or(0, |oldest| oldest.number);
        for entry in self.files.context.env.list_directory(&self.files.context.directory)? {
            match names::kind(&entry.name) {
                // One may be about to be removed, and one about to be recorded. The next opening that writes removes
                // what a repair has left.
                FileKind::Checkpoint(number)
                    if !self.files.context.options.read_only && number.saturating_add(1) < oldest =>
                {
                    let path = self.files.context.directory.join(&entry.name);
                    report.findings.push(Error::corruption(
                        path,
                        0,
                        "an index checkpoint that the MANIFEST does not know",
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Finds files and key segments that belong to nobody, or that are missing.
    fn verify_directory(
        &self,
        files: &BTreeMap<u32, FileRecord>,
        keys: &BTreeMap<u32, Keys>,
        report: &mut VerifyReport,
    ) -> Result<()> {
        let under_way = self.files.under_way();
        let is_kept = |number: u32| self.state.index.keys.lingers(number);
        self.files.find_stray_tables(files, &under_way, is_kept, report)?;
        let is_stray =
            |number: u32| !files.contains_key(&number) && self.files.is_stray(number, &under_way) && !is_kept(number);
        let keys_of = |number: u32| keys.get(&number).map(|keys| keys.count);
        self.state.index.keys.verify_files(files, &keys_of, &is_stray, report);
        Ok(())
    }
}

/// The keys of a table file.
struct Keys {
    section: KeySection,
    /// Number of distinct keys.
    count: u64,
}

/// What may have deleted a key.
struct Deletes {
    /// The sequence number of the newest delete of each key that has one.
    newest: HashMap<Vec<u8>, u64>,
    /// Compactions may have dropped other deletes up to this sequence number.
    dropped_through: u64,
}

/// The newest deletes in these key sections.
fn newest_deletes(keys: &BTreeMap<u32, Keys>, report: &mut VerifyReport) -> Deletes {
    let mut newest = HashMap::new();
    for Keys { section, .. } in keys.values() {
        for entry in section.newest_entries() {
            match entry {
                Ok(entry) if entry.kind == EntryKind::Delete => {
                    let sequence = newest.entry(entry.key.to_vec()).or_insert(0);
                    *sequence = entry.sequence.max(*sequence);
                }
                Ok(_) => {}
                Err(error) => {
                    report.findings.push(error);
                    break;
                }
            }
        }
    }
    Deletes { newest, dropped_through: 0 }
}

/// What is wrong with an index record that points into the right file.
fn points_elsewhere(found: Location, sequence: u64, kind: EntryKind, place: Place) -> Option<String> {
    if kind == EntryKind::Delete {
        Some("the index points to a delete".into())
    } else if (found.sequence, found.place) != (sequence, place) {
        Some(format!(
            "the index points to sequence number {} at {}+{}, the key section says {}+{}",
            found.sequence, found.place.offset, found.place.length, place.offset, place.length
        ))
    } else {
        None
    }
}
