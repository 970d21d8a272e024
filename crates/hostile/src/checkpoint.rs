//! Index checkpoints: opened, and every entry read, from the front and from keys within.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use slmdb_env::Result;
use slmdb_order::KeyOrder;
use slmdb_table::{CheckpointReader, CheckpointStream, CheckpointWriter, Place};
use slmdb_testkit::MemoryEnv;

use crate::memory::{UNPACKED_BYTES, within};
use crate::mend::parts::mend_checkpoint;
use crate::mode::{Mode, expected};

const PATH: &str = "/4.checkpoint";
const NUMBER: u32 = 4;
const UUID: [u8; 16] = *b"a hostile store!";

/// Key, sequence number, table file, block.
type Entry = (Vec<u8>, u64, u32, Place);

struct Sound {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// Short keys; two chunks because of long keys; no entry at all; so many files that the summary is compressed.
fn sounds() -> &'static [Sound] {
    static SOUNDS: OnceLock<Vec<Sound>> = OnceLock::new();
    SOUNDS.get_or_init(|| {
        let entry = |number: u64, key: Vec<u8>, files: u64| {
            let place = Place { offset: number as u32 * 37, length: 100 + number as u32 };
            (key, number * 7, 3 + (number % files) as u32, place)
        };
        let short = (0..60).map(|n| entry(n, format!("key{n:03}").into_bytes(), 5)).collect();
        let long = (0..3).map(|n| entry(n, [vec![n as u8; 30_000], vec![b'k'; 2]].concat(), 2)).collect();
        let many = (0..60).map(|n| entry(n, format!("{n:03}").into_bytes(), 60)).collect();
        [short, long, Vec::new(), many].map(sound).into()
    })
}

fn sound(entries: Vec<Entry>) -> Sound {
    let env = MemoryEnv::new();
    let write = || {
        let (path, files) = (Path::new(PATH), [4, 5, 900]);
        let mut writer = CheckpointWriter::new(&env, path, NUMBER, UUID, 77, files, KeyOrder::Bytewise)?;
        for (key, sequence, file, place) in &entries {
            writer.add(key, *sequence, *file, *place)?;
        }
        writer.finish()
    };
    write().expect("a sound checkpoint");
    Sound { bytes: env.content(PATH).expect("a checkpoint"), entries }
}

/// The one of long keys is left out: it is large.
pub fn files() -> Vec<Vec<u8>> {
    sounds().iter().map(|sound| sound.bytes.clone()).filter(|bytes| bytes.len() < 10_000).collect()
}

pub fn run(input: &[u8]) {
    let Some((mode, rest)) = Mode::split(input) else { return };
    let sound = &sounds()[mode.sound(sounds().len())];
    let mut bytes = mode.file(rest, &sound.bytes);
    mode.mend(&mut bytes, &sound.bytes, |bytes| mend_checkpoint(bytes, NUMBER, UUID, mode.has_option()));
    within(16 * bytes.len() + UNPACKED_BYTES, || {
        let env = MemoryEnv::new();
        env.set_content(PATH, &bytes);
        let opened = CheckpointReader::open(&env, Path::new(PATH), NUMBER, UUID, KeyOrder::Bytewise);
        match opened.map(Arc::new).and_then(|reader| read(&reader)) {
            Ok(entries) if mode.is_strict() => assert!(entries == sound.entries, "wrong entries, and no error"),
            Ok(_) => {}
            Err(error) => {
                assert!(!mode.is_strict() || bytes != sound.bytes, "a sound checkpoint is refused: {error}");
                expected(&error);
            }
        }
    });
}

fn read(reader: &Arc<CheckpointReader>) -> Result<Vec<Entry>> {
    let files: Vec<u32> = reader.files().map(|file| file.number).collect();
    assert!(reader.listed_files().count() <= files.len());
    let mut stream = CheckpointStream::new(Arc::clone(reader));
    for chunk in 0..stream.chunks() {
        if let Err(error) = stream.first_key(chunk) {
            expected(&error);
        }
    }
    let mut entries: Vec<Entry> = Vec::new();
    while stream.advance()? {
        let location = stream.location().expect("an entry was read");
        assert!(entries.last().is_none_or(|last| last.0[..] < *stream.key()), "keys do not ascend");
        entries.push((stream.key().to_vec(), location.sequence, files[location.file_index], location.place));
    }
    assert!(stream.location().is_none() && !stream.advance()?, "entries behind the end");
    assert_eq!(entries.len() as u64, reader.entries(), "a short answer");
    for from in [0, entries.len() / 2, entries.len().saturating_sub(1)] {
        let Some((from, ..)) = entries.get(from) else { break };
        stream.seek(from)?;
        while stream.advance()? && stream.key() < &from[..] {}
        assert_eq!(stream.key(), &from[..], "a seek misses its key");
    }
    Ok(entries)
}
