//! The sound stores that are edited, and what was put into them.
//!
//! What a store writes follows from its threads, too, and is not the same twice. So that an input means the same in every process
//! these are kept, in `fuzz/sound`, each as the LZ4 of its files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use slmdb_env::{Env, Result};
use slmdb_manifest::Manifest;
use slmdb_testkit::{MemoryEnv, Random};

use super::kind::{Kind, On, POOL, STORE, kinds, options};
use crate::mend;

pub(super) type Model = BTreeMap<Vec<u8>, Vec<u8>>;
/// A key's new value, or its end.
type Change = (Vec<u8>, Option<Vec<u8>>);
type Files = Vec<(PathBuf, Vec<u8>)>;

/// A store: its files, and what it held.
pub(super) struct Sound {
    pub files: Files,
    pub uuid: [u8; 16],
    /// The seed of the pages of an image of its index.
    pub image_seed: u32,
    pub model: Model,
    /// Every value that any key ever had.
    pub history: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    pub closed: bool,
}

/// Of each engine on each medium: one that was closed, one that was killed. (What was killed has no image.)
pub(super) fn sounds(wanted: Kind) -> &'static [Sound] {
    static SOUNDS: OnceLock<Vec<(Kind, Vec<Sound>)>> = OnceLock::new();
    let kept = |kind: Kind, closed: bool| {
        let path = place(kind, closed);
        let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let files = unpack(&packed).unwrap_or_else(|| panic!("{} is no packed store", path.display()));
        sound(files, closed).expect("a MANIFEST")
    };
    let of_kind = |kind: Kind| ends(kind).iter().map(|&closed| kept(kind, closed)).collect();
    let all = SOUNDS.get_or_init(|| kinds().map(|kind| (kind, of_kind(kind))).collect());
    let (_, sounds) = all.iter().find(|(kind, _)| *kind == wanted).expect("all kinds are there");
    sounds
}

/// Whether the stores of this kind were closed.
fn ends(kind: Kind) -> &'static [bool] {
    if kind.on.has_image() { &[true] } else { &[true, false] }
}

/// Makes new ones and keeps them: after a change of a format, for example.
pub fn make_all() -> Result<()> {
    for kind in kinds() {
        for &closed in ends(kind) {
            let packed = pack(&make(kind, closed)?);
            let path = place(kind, closed);
            std::fs::write(&path, packed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
    Ok(())
}

fn place(Kind { engine, on }: Kind, closed: bool) -> PathBuf {
    let (medium, end) = (on.name(), if closed { "closed" } else { "killed" });
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/sound").join(format!("{engine}-{medium}-{end}.lz4"))
}

/// What is done, by rounds.
fn rounds() -> Vec<Vec<Change>> {
    let mut random = Random(11);
    let mut change = || {
        let key = format!("key{:02}", random.below(40)).into_bytes();
        let is_put = random.below(4) != 0;
        let value = is_put.then(|| (0..random.below(60)).map(|_| random.number() as u8).collect());
        (key, value)
    };
    (0..4).map(|_| (0..30).map(|_| change()).collect()).collect()
}

fn sound(files: Files, closed: bool) -> Result<Sound> {
    let env = MemoryEnv::new();
    files.iter().for_each(|(path, content)| env.set_content(path, content));
    let state = Manifest::read(&env, Path::new(STORE))?.state;
    let (uuid, image_seed) = (state.uuid, mend::image::seed(&state));
    let (mut model, mut history) = (Model::new(), BTreeMap::<Vec<u8>, Vec<Vec<u8>>>::new());
    for (key, value) in rounds().into_iter().flatten() {
        match value {
            Some(value) => {
                history.entry(key.clone()).or_default().push(value.clone());
                model.insert(key, value);
            }
            None => drop(model.remove(&key)),
        }
    }
    Ok(Sound { files, uuid, image_seed, model, history, closed })
}

fn make(kind: Kind, closed: bool) -> Result<Files> {
    let env = MemoryEnv::with_seed(2019);
    let mut db = options(kind, &env).open(STORE)?;
    for (round, changes) in rounds().into_iter().enumerate() {
        for (key, value) in changes {
            match value {
                Some(value) => db.put(&key, &value)?,
                None => db.delete(&key)?,
            }
        }
        if round == 1 {
            db.compact_range::<&[u8]>(..)?;
            db.close()?;
            db = options(kind, &env).open(STORE)?;
        } else if round < 3 {
            db.flush()?;
        }
        // So that there are checkpoints that tell of files that are there.
        std::thread::sleep(Duration::from_millis(100));
    }
    let machine = if closed || kind.on == On::Emulated {
        db.close()?;
        env.clone()
    } else {
        db.sync()?;
        let killed = env.kill();
        db.close()?;
        killed
    };
    let mut files = Vec::new();
    for entry in machine.list_directory(Path::new(STORE))? {
        let path = Path::new(STORE).join(&entry.name);
        let content = machine.content(&path).filter(|_| path.file_name().is_some_and(|name| name != "LOCK"));
        files.extend(content.map(|content| (path, content)));
    }
    if let Some(mut pool) = machine.content(POOL) {
        if !closed {
            // What a kill leaves of a mapped pool; this machine's files can't be mapped.
            mend::pool::leave_open(&mut pool, machine.boot_id());
        }
        files.push((POOL.into(), pool));
    }
    Ok(files)
}

/// Each file: the length of its name, the name, the length of its content, the content. All of it packed.
fn pack(files: &Files) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (path, content) in files {
        for part in [path.as_os_str().as_encoded_bytes(), content] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part);
        }
    }
    lz4_flex::compress_prepend_size(&bytes)
}

fn unpack(packed: &[u8]) -> Option<Files> {
    let bytes = lz4_flex::decompress_size_prepended(packed).ok()?;
    let mut rest = &bytes[..];
    let mut part = || {
        let (length, behind) = rest.split_first_chunk()?;
        let (part, behind) = behind.split_at_checked(u64::from_le_bytes(*length) as usize)?;
        rest = behind;
        Some(part)
    };
    let mut files = Files::new();
    while let Some(path) = part() {
        let path = std::str::from_utf8(path).ok()?;
        files.push((path.into(), part()?.to_vec()));
    }
    Some(files)
}
