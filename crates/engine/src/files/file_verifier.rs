//! [`FileVerifier`]: the part of a verification that is the same for any engine.
//!
//! It checks every table file from end to end: checksums, order, the key section against the blocks, and the properties
//! against the MANIFEST. It finds table files that the MANIFEST does not name. What an engine's own index says of the
//! entries is the engine's to check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, FileRecord};
use slmdb_table::TableReader;

use super::catalog::Catalog;
use super::file_names as names;
use super::file_names::FileKind;
use super::obsolete_files::ObsoleteFiles;
use super::table_cache::Tables;
use crate::context::StoreContext;
use crate::{VerifyProgress, VerifyReport};

/// Findings beyond these are counted, not listed.
const FINDINGS_MAX: usize = 1000;

/// The part of a verification that is the same for any engine.
pub struct FileVerifier {
    /// The store's directory and options.
    pub context: Arc<StoreContext>,
    /// The MANIFEST.
    pub catalog: Arc<Catalog>,
    /// The open table files.
    pub tables: Arc<Tables>,
    /// Table files that are about to be removed.
    pub obsolete: Arc<ObsoleteFiles>,
}

/// Table files that are being made, or wait to be recorded in the MANIFEST.
pub struct FilesUnderWay(BTreeSet<u32>);

impl FileVerifier {
    /// Reads every table file of the MANIFEST from end to end, and passes each that can be opened to `check`.
    pub fn verify_tables(
        &self,
        files: &BTreeMap<u32, FileRecord>,
        report: &mut VerifyReport,
        progress: &mut dyn FnMut(VerifyProgress),
        mut check: impl FnMut(u32, &TableReader, &mut VerifyReport),
    ) {
        let total_bytes = files.values().map(|file| file.length_bytes).sum();
        let mut before_bytes = 0;
        for (&number, record) in files {
            match self.tables.reader(number) {
                Err(error) => report.findings.push(error),
                Ok(reader) => {
                    let mut in_file =
                        |done_bytes| progress(VerifyProgress { done_bytes: before_bytes + done_bytes, total_bytes });
                    report.findings.extend(reader.verify(&mut in_file));
                    report.findings.extend(self.differing_properties(number, record, &reader));
                    check(number, &reader, report);
                }
            }
            report.table_files_checked += 1;
            report.table_bytes_checked += record.length_bytes;
            before_bytes += record.length_bytes;
            progress(VerifyProgress { done_bytes: before_bytes, total_bytes });
        }
    }

    /// The finding, if a table file and the MANIFEST differ about its properties.
    fn differing_properties(&self, number: u32, record: &FileRecord, reader: &TableReader) -> Option<Error> {
        let properties = reader.properties();
        let in_file = (properties.entries, properties.deletes, properties.highest_sequence);
        let in_manifest = (record.entries, record.deletes, record.highest_sequence);
        (in_file != in_manifest).then(|| {
            let what = format!(
                "the MANIFEST says {} entries, {} deletes, sequence numbers to {} of table file {number}, which says {}, {}, {}",
                in_manifest.0, in_manifest.1, in_manifest.2, in_file.0, in_file.1, in_file.2
            );
            Error::corruption(self.context.directory.join(MANIFEST_NAME), 0, what)
        })
    }

    /// The files that are under way now. A caller asks for them before it lists what there is.
    /// LOCKS: file numbers
    pub fn under_way(&self) -> FilesUnderWay {
        FilesUnderWay(self.catalog.numbers.under_way())
    }

    /// Whether a table file that the MANIFEST does not name belongs to nobody. Files of a job and files that are
    /// about to be removed are no strays. Asks for the jobs again, because one may have begun since `under_way`. What
    /// a crash has left over is for the next opening that writes, so a store that is read-only has no strays.
    /// LOCKS: file numbers; obsolete files, leaving; obsolete files, waiting
    pub fn is_stray(&self, number: u32, under_way: &FilesUnderWay) -> bool {
        !self.context.options.read_only
            && !under_way.0.contains(&number)
            && !self.catalog.numbers.is_under_way(number)
            && !self.obsolete.lingers(number)
    }

    /// Finds table files in the directory that belong to nobody. `is_kept`: whether the engine still has a use for a
    /// file. That is asked last, because a file that leaves the store is handed to the engine last.
    pub fn find_stray_tables(
        &self,
        files: &BTreeMap<u32, FileRecord>,
        under_way: &FilesUnderWay,
        is_kept: impl Fn(u32) -> bool,
        report: &mut VerifyReport,
    ) -> Result<()> {
        for entry in self.context.env.list_directory(&self.context.directory)? {
            let FileKind::Table(number) = names::kind(&entry.name) else { continue };
            let path = self.context.directory.join(&entry.name);
            let is_stray = !files.contains_key(&number) && self.is_stray(number, under_way) && !is_kept(number);
            // It may have been removed since it was listed.
            if is_stray && self.context.env.exists(&path)? {
                report.findings.push(Error::corruption(path, 0, "a table file that the MANIFEST does not know"));
            }
        }
        Ok(())
    }

    /// Shortens a long list of findings. The last one then says how many more there were.
    pub fn limit_findings(&self, report: &mut VerifyReport) {
        if report.findings.len() > FINDINGS_MAX {
            let more = report.findings.len() - FINDINGS_MAX;
            report.findings.truncate(FINDINGS_MAX);
            report.findings.push(Error::corruption(&self.context.directory, 0, format!("and {more} findings more")));
        }
    }
}
