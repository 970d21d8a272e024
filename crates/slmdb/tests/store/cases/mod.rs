//! Cases as text: what is done to a store, and what comes of it, for a reader to follow. `SLMDB_REWRITE_CASES=yes` writes what comes of
//! it today into the files, to be looked at in the difference.
//!
//! A file is blocks with an empty line between them. A block is commands, one a line; then, if they say anything, `----` and
//! what they say. Lines that begin with `#` are for the reader. The commands stand at [`script`].

mod script;

use std::path::{Path, PathBuf};

use script::Script;

/// A test for each file, and one that no file is left out.
macro_rules! cases {
    ($($folder:ident: $($name:ident)*;)*) => {
        $(mod $folder {
            $(#[test]
            fn $name() {
                super::run(concat!(stringify!($folder), "/", stringify!($name)));
            })*
        })*

        #[test]
        fn every_file_is_run() {
            let mut named = vec![$($(concat!(stringify!($folder), "/", stringify!($name), ".txt").to_string()),*),*];
            let mut found: Vec<String> = [$(stringify!($folder)),*].into_iter().flat_map(files_in).collect();
            named.sort();
            found.sort();
            assert_eq!(named, found);
        }
    };
}

cases! {
    slm: deletes full_pool garbage garbage_alone killed_compaction live_key_ratio no_compaction overlap range_queries small_files;
    recovery: batches damaged_log killed_flush large_values logs power_cut repaired;
    space: full_disk no_room snapshot way_out;
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/store/cases")
}

fn files_in(name: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder().join(name)).unwrap();
    entries.map(|entry| format!("{name}/{}", entry.unwrap().file_name().to_str().unwrap())).collect()
}

/// Lines up to the next empty one.
struct Block<'t> {
    commands: Vec<&'t str>,
    /// Comments and commands as they stand there.
    head: Vec<&'t str>,
    expected: String,
    /// The number of the first line.
    line: usize,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut first = 1;
    for lines in lines.split(|line| line.is_empty()) {
        let divided = lines.iter().position(|line| *line == "----");
        let (head, rest) = lines.split_at(divided.unwrap_or(lines.len()));
        let commands = head.iter().copied().filter(|line| !line.starts_with('#')).collect();
        let expected = rest.iter().skip(1).flat_map(|line| [line, "\n"]).collect();
        blocks.push(Block { commands, head: head.to_vec(), expected, line: first });
        first += lines.len() + 1;
    }
    blocks
}

fn run(name: &str) {
    // (It tells how many keys of a file live, and TLSM counts all.)
    if name == "recovery/killed_flush" && crate::common::is_tlsm() {
        return;
    }
    let path = folder().join(name).with_extension("txt");
    let text = std::fs::read_to_string(&path).unwrap();
    let is_rewritten = std::env::var_os("SLMDB_REWRITE_CASES").is_some();
    let (mut script, mut rewritten) = (Script::default(), Vec::new());
    for block in blocks(&text) {
        let context = format!("{name}.txt:{}", block.line);
        let mut said = String::new();
        for command in &block.commands {
            let wanted = block.expected.strip_prefix(&said[..]).filter(|_| !is_rewritten);
            said += &script.run(command, wanted, &context);
        }
        if !is_rewritten {
            let commands = block.commands.join("\n");
            assert!(said == block.expected, "{context}\n{commands}\nsays\n{said}and should say\n{}", block.expected);
        }
        let mut lines = block.head.join("\n");
        if !said.is_empty() {
            lines += &format!("\n----\n{}", said.trim_end());
        }
        rewritten.push(lines);
    }
    if is_rewritten {
        std::fs::write(path, rewritten.join("\n\n") + "\n").unwrap();
    }
}
