//! The format stands still: the kept files are read, the same bytes are written as ever, and
//! `docs/formats/table.md` says what the code says.

use std::path::PathBuf;

use crate::support::watched::WatchedEnv;
use crate::support::{Entry, PATH, build, open, read_all};
use slmdb_table::{Compression, FORMAT_VERSION, TableOptions};
use slmdb_testkit::MemoryEnv;

/// What the fixtures hold. Never to be changed.
fn entries_of_fixtures() -> Vec<Entry> {
    let mut entries = vec![
        Entry::put("", 1, "value of the empty key"),
        Entry::put("a", u64::MAX, ""),
        Entry::delete("a\0", 3),
        Entry::put("long", 4, b"compressible ".repeat(100)),
        Entry::put([0xff; 300], 5, [0xfe; 3]),
    ];
    entries.extend((0..40u64).map(|number| Entry::put(format!("key{number:05}"), number * 1000, [number as u8; 9])));
    entries.extend((0..9u64).map(|number| Entry::put("key00030", 2 + 3 * number, [number as u8; 50])));
    entries.push(Entry::delete("key00030", 30));
    entries.sort_by(|left, right| left.key.cmp(&right.key).then(right.sequence.cmp(&left.sequence)));
    entries
}

fn options_of_fixtures(compression: Compression) -> TableOptions {
    TableOptions { block_bytes: 512, restart_interval: 4, compression, ..TableOptions::default() }
}

fn fixture(compression: Compression) -> PathBuf {
    let name = format!("version-{FORMAT_VERSION}-{compression:?}.table").to_lowercase();
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn file_of_present_version(compression: Compression) -> Vec<u8> {
    let memory = MemoryEnv::new();
    let env = WatchedEnv::new(memory.clone());
    build(&env, &entries_of_fixtures(), options_of_fixtures(compression)).unwrap();
    memory.content(PATH).unwrap()
}

#[test]
fn the_kept_files_are_read() {
    for &compression in Compression::BUILT_IN {
        let env = MemoryEnv::new();
        env.set_content(PATH, &std::fs::read(fixture(compression)).unwrap());
        assert_eq!(read_all(&env).unwrap(), entries_of_fixtures());
        assert!(open(&env).unwrap().verify(&mut |_| {}).is_empty());
    }
}

fn fixture_by_key() -> PathBuf {
    let name = format!("tests/fixtures/version-{FORMAT_VERSION}-none-by-key.table");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// What the other fixtures hold, and keys long enough for several chunks. Never to be changed.
fn entries_searched_by_key() -> Vec<Entry> {
    let mut entries = entries_of_fixtures();
    entries.extend((0..9u8).map(|number| Entry::put([&[0xff; 1200][..], &[number]].concat(), 6, [number; 300])));
    entries
}

fn file_searched_by_key() -> Vec<u8> {
    let (env, entries) = (MemoryEnv::new(), entries_searched_by_key());
    let options = crate::by_key::options(512, Compression::None, 10);
    build(&env, &entries, options).unwrap();
    env.content(PATH).unwrap()
}

#[test]
fn a_file_searched_by_key_is_read_and_written_as_ever() {
    let env = MemoryEnv::new();
    env.set_content(PATH, &std::fs::read(fixture_by_key()).unwrap());
    let table = open(&env).unwrap();
    assert!(table.verify(&mut |_| {}).is_empty());
    crate::by_key::check_reading(&table, &entries_searched_by_key(), &slmdb_order::KeyOrder::Bytewise);
    assert_eq!(file_searched_by_key(), std::fs::read(fixture_by_key()).unwrap());
}

/// Compressed, the bytes are the compressor's affair; without, any difference is a change of the format.
#[test]
fn the_present_version_writes_what_it_always_wrote() {
    let file = file_of_present_version(Compression::None);
    assert_eq!(file, std::fs::read(fixture(Compression::None)).unwrap());
}

/// A build without zstd reads what is not compressed with it, and says of the rest what it lacks.
#[cfg(not(feature = "zstd"))]
#[test]
fn without_zstd_its_files_are_unsupported_and_not_damaged() {
    use slmdb_env::Error;
    let names_the_feature = |error: &Error| match error {
        Error::Unsupported { what, file: Some(file) } => {
            file.as_os_str() == PATH && what.contains(" at ") && what.contains("feature `zstd`")
        }
        _ => false,
    };
    let env = MemoryEnv::new();
    env.set_content(PATH, &std::fs::read(fixture(Compression::Zstd)).unwrap());
    let error = read_all(&env).unwrap_err();
    assert!(names_the_feature(&error), "{error}");
    let findings = match open(&env) {
        Ok(table) => table.verify(&mut |_| {}),
        Err(error) => vec![error],
    };
    assert!(!findings.is_empty() && findings.iter().all(names_the_feature), "{findings:?}");
    let refused = build(&MemoryEnv::new(), &[], options_of_fixtures(Compression::Zstd)).unwrap_err();
    assert!(matches!(&refused, Error::Unsupported { what, .. } if what.contains("feature `zstd`")), "{refused}");
}

/// Writes the fixtures of a new format version, or a new compression, once: `SLMDB_WRITE_FIXTURES=1 cargo test -p slmdb-table --test table_files format`.
#[test]
fn fixtures_are_written_on_request() {
    if std::env::var_os("SLMDB_WRITE_FIXTURES").is_none() {
        return;
    }
    if !fixture_by_key().exists() {
        std::fs::write(fixture_by_key(), file_searched_by_key()).unwrap();
    }
    for &compression in Compression::BUILT_IN {
        let path = fixture(compression);
        if path.exists() {
            println!("{}: fixtures are never changed", path.display());
            continue;
        }
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file_of_present_version(compression)).unwrap();
    }
}

/// The tables of bytes at the head of each module stand in the document word for word.
#[test]
fn the_document_says_what_the_code_says() {
    let document = include_str!("../../../../docs/formats/table.md");
    let modules = [
        include_str!("../../src/lib.rs"),
        include_str!("../../src/part.rs"),
        include_str!("../../src/single.rs"),
        include_str!("../../src/block.rs"),
        include_str!("../../src/key_section.rs"),
        include_str!("../../src/key_section/shortened.rs"),
        include_str!("../../src/index_chunk.rs"),
        include_str!("../../../filter/src/lib.rs"),
        include_str!("../../src/properties.rs"),
        include_str!("../../src/footer.rs"),
    ];
    for module in modules {
        let essay: String = module
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
            .collect();
        let (_, table) = essay.split_once("```text\n").unwrap();
        let (table, _) = table.split_once("```").unwrap();
        assert!(document.contains(table), "not in docs/formats/table.md:\n{table}");
    }
    assert!(document.contains(&format!("format version: {FORMAT_VERSION}\n")));
}
