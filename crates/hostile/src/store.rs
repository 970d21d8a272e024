//! Whole directories: files of a store are edited, and it is opened, read, written to, verified, closed and opened again;
//! or repaired first.

pub mod kind;
pub mod sound;

use std::path::Path;

use slmdb::{Db, EngineName};
use slmdb_env::{Error, ErrorKind, Result};
use slmdb_testkit::MemoryEnv;

use crate::memory::{UNPACKED_BYTES, within};
use crate::mode::Mode;
use crate::{mend, script};
use kind::{BUDGET_BYTES, Kind, On, POOL_BYTES_MAX, STORE, kinds, options};
use sound::{Model, Sound, sounds};

/// What a store takes beside its budget, whatever it holds: threads, channels, MemTables under way, and the log of the
/// machine in memory.
const FIXED_BYTES: usize = 8 << 20;
/// More than any store here has keys, so more steps mean a circle.
const STEPS_MAX: usize = 10_000;

/// Mends what a file has of checksums.
fn mend_file(path: &Path, bytes: &mut [u8], kind: Kind, sound: &Sound) {
    let uuid = sound.uuid;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
    let number = stem.parse::<u64>().unwrap_or(0);
    match (stem, extension) {
        ("MANIFEST", _) => mend::manifest::mend(bytes),
        ("pool", _) => mend::pool::mend(bytes),
        ("INDEX", _) if kind.on == On::DramWithPoolImage => mend::image::mend_pool(bytes),
        ("INDEX", _) => mend::image::mend(bytes, sound.image_seed),
        (_, "sst") => mend::parts::mend_table(bytes, number as u32, uuid, true),
        (_, "checkpoint") => mend::parts::mend_checkpoint(bytes, number as u32, uuid, true),
        (_, "hash") => mend::hash_table::mend(bytes),
        (_, "arena") => mend::arena::mend(bytes, number, uuid),
        _ => {}
    }
}

/// What may be asserted about a damaged store.
struct Case<'s> {
    kind: Kind,
    sound: &'s Sound,
    mended: bool,
    /// What was in it is there, or there is an error.
    strict: bool,
}

/// Runs an input with a store of each engine.
pub fn run(on: On, input: &[u8]) {
    kinds().filter(|kind| kind.on == on).for_each(|kind| run_kind(kind, input));
}

fn run_kind(kind: Kind, input: &[u8]) {
    let Some((mode, rest)) = Mode::split(input) else { return };
    let sounds = sounds(kind);
    let sound = &sounds[mode.sound(sounds.len())];
    let mut files: Vec<Vec<u8>> = sound.files.iter().map(|(_, bytes)| bytes.clone()).collect();
    let edited = script::apply(rest, &mut files);
    let env = MemoryEnv::new();
    env.set_content(Path::new(STORE).join("LOCK"), b"");
    let mut files_bytes = 0;
    for ((path, content), bytes) in sound.files.iter().zip(&mut files) {
        mode.mend(bytes, content, |bytes| mend_file(path, bytes, kind, sound));
        // One that was emptied is gone.
        if !bytes.is_empty() {
            env.set_content(path, bytes);
        }
        files_bytes += bytes.len();
    }
    let repairs = mode.is_whole();
    let is_edited = |end: &str| {
        let mut files = sound.files.iter().zip(&files);
        files.any(|((path, content), bytes)| path.to_string_lossy().ends_with(end) && content != bytes)
    };
    // That it was closed is the MANIFEST's last word: without it the end of the log is where a crash may have left it.
    let is_log_open = is_edited("MANIFEST") && is_edited(".arena");
    let strict = mode.is_strict() && sound.closed && !is_log_open;
    let case = Case { kind, sound, mended: mode.is_mended(), strict };
    let disk_bytes = files_bytes + if kind.on == On::Emulated { POOL_BYTES_MAX } else { 0 };
    within(8 * disk_bytes + UNPACKED_BYTES + BUDGET_BYTES + FIXED_BYTES, || {
        let outcome = if repairs { case.repair(&env) } else { case.open(&env, mode.has_option()) };
        if let Err(error) = outcome {
            assert!(edited || repairs, "a sound store gives {error:?}");
            case.allowed(&error);
        }
    });
}

impl Case<'_> {
    fn open(&self, env: &MemoryEnv, read_only: bool) -> Result<()> {
        let db = options(self.kind, env).read_only(read_only).open(STORE)?;
        self.ask(&db, self.strict.then_some(&self.sound.model))?;
        if read_only {
            return db.close();
        }
        let mut model = self.sound.model.clone();
        for key in ["key07", "new"] {
            db.put(key, "new value")?;
            model.insert(key.into(), b"new value".to_vec());
        }
        db.delete("key08")?;
        model.remove(&b"key08"[..]);
        self.ask(&db, self.strict.then_some(&model))?;
        if !self.mended {
            assert_eq!(db.get("new")?.as_deref(), Some(&b"new value"[..]), "what was put is not there");
            assert!(db.get("key08")?.is_none(), "what was deleted is there");
        }
        db.flush()?;
        let is_clean = db.verify(&mut |_| ())?.is_clean();
        let compacted = db.compact_range::<&[u8]>(..);
        assert!(compacted.is_ok() || !is_clean || self.mended, "verify finds nothing, but compacting: {compacted:?}");
        compacted?;
        db.close()?;
        let db = options(self.kind, env).read_only(true).open(STORE)?;
        self.ask(&db, self.strict.then_some(&model))?;
        db.close()
    }

    /// What a repair has made whole opens, and is whole.
    fn repair(&self, env: &MemoryEnv) -> Result<()> {
        options(self.kind, env).repair(STORE, &mut |_| ())?;
        let again = || -> Result<()> {
            let db = options(self.kind, env).open(STORE)?;
            self.ask(&db, None)?;
            let report = db.verify(&mut |_| ())?;
            assert!(report.is_clean(), "repaired, and still damaged: {:?}", report.findings);
            db.close()
        };
        again().unwrap_or_else(|error| panic!("{:?} repaired, and then {error:?}", self.kind));
        Ok(())
    }

    /// Everything a reader can ask. With a model the answers must be right; else they must agree.
    fn ask(&self, db: &Db, model: Option<&Model>) -> Result<()> {
        let mut forwards = Model::new();
        for (step, entry) in db.iter()?.enumerate() {
            let (key, value) = entry?;
            assert!(step < STEPS_MAX, "a cycle");
            assert!(forwards.last_key_value().is_none_or(|(last, _)| last[..] < *key), "keys do not ascend");
            self.once_put(&key, &value);
            forwards.insert(key.to_vec(), value.to_vec());
        }
        assert!(model.is_none_or(|model| forwards == *model), "wrong or missing values, and no error");
        let mut backwards = Model::new();
        for (step, entry) in db.iter()?.rev().enumerate() {
            let (key, value) = entry?;
            assert!(step < STEPS_MAX, "a cycle backwards");
            assert!(backwards.first_key_value().is_none_or(|(last, _)| last[..] > *key), "keys do not descend");
            self.once_put(&key, &value);
            backwards.insert(key.to_vec(), value.to_vec());
        }
        assert!(model.is_none_or(|model| backwards == *model), "wrong or missing values backwards, and no error");
        for number in 0..40 {
            let key = format!("key{number:02}").into_bytes();
            let value = db.get(&key)?;
            if let Some(value) = &value {
                self.once_put(&key, value);
            }
            let expected = model.map(|model| model.get(&key).map(Vec::as_slice));
            assert!(expected.is_none_or(|expected| expected == value.as_deref()), "a wrong value, and no error");
            db.contains_key(&key)?;
        }
        db.approximate::<&[u8]>(..)?;
        Ok(())
    }

    /// Whatever else is lost, no key has another's value, nor one that nobody put.
    fn once_put(&self, key: &[u8], value: &[u8]) {
        let once = || self.sound.history.get(key).is_some_and(|values| values.iter().any(|put| put == value));
        let ours = value == b"new value" && (key == b"new" || key == b"key07");
        assert!(self.mended || ours || once(), "a value that was never put for {}", key.escape_ascii());
    }

    fn allowed(&self, error: &Error) {
        match error {
            Error::Corruption { file, .. } => assert!(!file.as_os_str().is_empty(), "no file named: {error}"),
            // Forged files may ask for anything: a pool elsewhere, more space than there is.
            _ if self.mended => {}
            // A flush that met the damage has ended the writing; the cause is in it.
            _ if [ErrorKind::Unsupported, ErrorKind::ReadOnly].contains(&error.kind()) => {}
            // Where a key segment does not say how long its keys are they count as the longest, and this pool is small.
            _ if error.kind() == ErrorKind::Full && self.kind.on == On::Emulated => {}
            // Without a MANIFEST a directory that has nothing else is that of a new store, which takes nobody's pool, or of none. (Others
            // have files.)
            Error::Invalid { what }
                if self.kind.engine == EngineName::Tlsm
                    && ["exists already", "there is no store"].iter().any(|said| what.contains(said)) => {}
            // A pool that can't be recognised any more is a foreign one; a repair wants a MANIFEST.
            _ if error.to_string().contains("repair") => {}
            _ => panic!("{:?}: not an error for damaged bytes: {error:?}", self.kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use slmdb::Loss;
    use slmdb_manifest::Manifest;

    use super::*;

    /// A store without any of its files whose names end so.
    fn without(sound: &Sound, ends: &[&str]) -> MemoryEnv {
        let env = MemoryEnv::new();
        env.set_content(Path::new(STORE).join("LOCK"), b"");
        let is_kept = |path: &Path| !ends.iter().any(|end| path.to_string_lossy().ends_with(end));
        sound.files.iter().filter(|(path, _)| is_kept(path)).for_each(|(path, bytes)| env.set_content(path, bytes));
        env
    }

    #[test]
    fn the_sound_store_with_an_image_is_opened_from_it() {
        for on in [On::DramWithImage, On::DramWithPoolImage] {
            let kind = Kind { engine: EngineName::Slm, on };
            let [sound] = sounds(kind) else { panic!("one that was closed") };
            let open = |env: &MemoryEnv| options(kind, env).read_only(true).open(STORE);
            // Without checkpoints nothing but the image knows of deletes that were dropped.
            let db = open(&without(sound, &[".checkpoint"])).expect("opened from the image");
            Case { kind, sound, mended: false, strict: true }.ask(&db, Some(&sound.model)).expect("sound");
            open(&without(sound, &[".checkpoint", "INDEX"])).map(drop).expect_err("there is no other index");
        }
    }

    /// Or every forged image would be one that nobody reads.
    #[test]
    fn a_mended_image_is_the_sound_one() {
        let kind = Kind { engine: EngineName::Slm, on: On::DramWithImage };
        let [sound] = sounds(kind) else { panic!("one that was closed") };
        let (path, bytes) = sound.files.iter().find(|(path, _)| path.ends_with("INDEX")).expect("an image");
        let mut mended = bytes.clone();
        mended[..4].fill(0);
        mend_file(path, &mut mended, kind, sound);
        assert!(mended == *bytes);
    }

    /// The MANIFEST may say that less was flushed than what is in a table file. If that was damaged, it stayed so.
    #[test]
    fn what_is_put_after_a_repair_is_newer_than_what_it_saved() {
        for kind in kinds() {
            let env = MemoryEnv::new();
            let db = options(kind, &env).open(STORE).unwrap();
            (0..40).for_each(|number| db.put(format!("key{number:02}"), [b'x'; 300]).unwrap());
            db.flush().unwrap();
            db.close().unwrap();
            let mut state = Manifest::read(&env, Path::new(STORE)).unwrap().state;
            (state.flushed_through, state.closed_at_sequence) = (3, None);
            if kind.engine == EngineName::Slm {
                // No checkpoints, and no deletes that were dropped.
                state.engine_section.clear();
            }
            Manifest::rewrite(&env, Path::new(STORE), &state).unwrap();
            let Some((number, _)) = state.files.first_key_value() else {
                assert_eq!(kind, Kind { engine: EngineName::Tlsm, on: On::Emulated }, "all others flush to files");
                continue;
            };
            let table = Path::new(STORE).join(format!("{number:010}.sst"));
            let mut bytes = env.content(&table).unwrap();
            bytes[1] ^= 4;
            env.set_content(&table, &bytes);

            let report = options(kind, &env).repair(STORE, &mut |_| ()).unwrap();
            let is_of_keys = |loss: &Loss| matches!(loss, Loss::Key { .. } | Loss::Entries { .. });
            assert!(report.losses.iter().any(is_of_keys), "{kind:?}: {report:#?}");
            let db = options(kind, &env).open(STORE).unwrap();
            assert_eq!(db.get("key39").unwrap().as_deref(), Some(&[b'x'; 300][..]), "{kind:?}");
            db.put("key39", "new").unwrap();
            db.flush().unwrap();
            assert_eq!(db.get("key39").unwrap().as_deref(), Some(&b"new"[..]), "{kind:?}");
            assert!(db.verify(&mut |_| ()).unwrap().is_clean(), "{kind:?}");
        }
    }
}
