//! Nothing cites what is not in the repository: links, names of files, and names of tests, functions and options in
//! documents; documents in comments.
//!
//! A name in backticks may leave out folders: `engine/space/ladder.rs` is `crates/engine/src/space/ladder.rs`. What it has must
//! come in that order.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Endings of what is taken for the name of a file.
const ENDINGS: [&str; 6] = [".rs", ".md", ".toml", ".txt", ".awk", ".svg"];

struct Repository {
    root: PathBuf,
    /// From the root.
    files: Vec<PathBuf>,
}

impl Repository {
    /// `None` in a package of this crate alone.
    fn find() -> Option<Repository> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a directory above");
        if !root.join("docs").is_dir() {
            eprintln!("SKIPPED: not in the repository");
            return None;
        }
        let mut repository = Repository { root, files: Vec::new() };
        repository.add(Path::new(""));
        Some(repository)
    }

    fn add(&mut self, directory: &Path) {
        for entry in std::fs::read_dir(self.root.join(directory)).expect("a folder") {
            let entry = entry.expect("an entry");
            let (path, kind) = (directory.join(entry.file_name()), entry.file_type().expect("a type"));
            if kind.is_dir() && !matches!(entry.file_name().to_str(), Some("target" | ".git")) {
                self.add(&path);
            } else if kind.is_file() {
                self.files.push(path);
            }
        }
    }

    fn texts(&self, ending: &str) -> impl Iterator<Item = (&Path, String)> {
        let files = self.files.iter().filter(move |path| path.to_string_lossy().ends_with(ending));
        files.map(|path| (path.as_path(), std::fs::read_to_string(self.root.join(path)).expect("text")))
    }

    fn has(&self, name: &str) -> bool {
        self.files.iter().any(|path| {
            let mut folders = path.components();
            let mut wanted = name.split('/').peekable();
            let in_order = wanted.all(|part| folders.any(|folder| folder.as_os_str() == part));
            in_order && folders.next().is_none()
        })
    }
}

/// What stands between `open` and the next `close`, each time.
fn between<'t>(text: &'t str, open: &'t str, close: char) -> impl Iterator<Item = &'t str> {
    text.split(open).skip(1).filter_map(move |rest| rest.split_once(close)).map(|(inside, _)| inside)
}

/// The text without its blocks of code.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// The heading's name in links, as is usual.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
}

#[test]
fn links_lead_somewhere() {
    let Some(repository) = Repository::find() else { return };
    let mut broken = Vec::new();
    for (document, text) in repository.texts(".md") {
        for link in between(&prose(&text), "](", ')').filter(|link| !link.contains("://")) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => repository.root.join(document),
                path => repository.root.join(document).parent().unwrap().join(path),
            };
            let leads = match heading {
                "" => target.exists(),
                heading => std::fs::read_to_string(&target).is_ok_and(|text| {
                    text.lines().any(|line| line.starts_with('#') && anchor(line.trim_start_matches('#')) == heading)
                }),
            };
            if !leads {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn files_that_documents_name_are_there() {
    let Some(repository) = Repository::find() else { return };
    let mut missing = Vec::new();
    for (document, text) in repository.texts(".md") {
        for line in prose(&text).lines() {
            for name in line.split('`').skip(1).step_by(2) {
                let is_name = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
                let is_file = ENDINGS.iter().any(|ending| name.ends_with(ending) && name != *ending);
                if is_name && is_file && !repository.has(name) {
                    missing.push(format!("{}: {name}", document.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Modules and settings of the Linux kernel.
const OF_LINUX: [&str; 4] = ["nd_pmem", "dax_pmem", "device_dax", "show_as"];

/// Words of several parts, joined by underscores: names of tests, functions and options. An ellipsis ends one that is cut
/// short: `a_store_that_…`. What is dated may name what was.
#[test]
fn names_in_documents_are_those_of_something() {
    let Some(repository) = Repository::find() else { return };
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    let is_name = |word: &str| word.contains('_') && word.chars().all(is_letter);
    let mut names: BTreeSet<String> = OF_LINUX.map(str::to_string).into();
    for ending in [".rs", ".txt", ".toml"] {
        for (_, text) in repository.texts(ending) {
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            names.extend(words.filter(|word| is_name(word)).map(str::to_string));
        }
    }
    let mut unknown = Vec::new();
    for (document, text) in repository.texts(".md") {
        if document.starts_with("docs/decisions.md")
            || document.starts_with("docs/measured")
            || document.ends_with("CHANGELOG.md")
        {
            continue;
        }
        for line in prose(&text).lines() {
            for word in line.split('`').skip(1).step_by(2) {
                let is_known = match word.strip_suffix('…') {
                    Some(start) if is_name(start) => {
                        names.range(start.to_string()..).next().is_some_and(|name| name.starts_with(start))
                    }
                    None if is_name(word) => names.contains(word),
                    _ => true,
                };
                if !is_known {
                    unknown.push(format!("{}: {word}", document.display()));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn documents_that_code_names_are_there() {
    let Some(repository) = Repository::find() else { return };
    let mut missing = Vec::new();
    for (file, text) in repository.texts(".rs") {
        let words = text.split(|letter: char| letter.is_whitespace() || "`()\",;:".contains(letter));
        for name in words.map(|word| word.trim_end_matches('.')).filter(|word| word.starts_with("docs/")) {
            if !repository.root.join(name).exists() {
                missing.push(format!("{}: {name}", file.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Rules are cited by name: INV-7, ARENA-2, POOL-9.
#[test]
fn rules_that_are_cited_are_written_down() {
    let Some(repository) = Repository::find() else { return };
    let cited = |text: &str| -> Vec<String> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        let rules = words.filter(|word| {
            let number = ["INV-", "ARENA-", "POOL-"].iter().find_map(|kind| word.strip_prefix(kind));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        });
        rules.map(str::to_string).collect()
    };
    let documents = || repository.texts(".md").filter(|(path, _)| path.starts_with("docs"));
    let defined = documents().flat_map(|(_, text)| {
        let starts = text.lines().filter_map(|line| line.strip_prefix("- **")?.split_once(".**")).map(|(rule, _)| rule);
        starts.map(str::to_string).collect::<Vec<String>>()
    });
    let defined: BTreeSet<String> = defined.filter(|rule| cited(rule) == [rule.as_str()]).collect();
    assert!(defined.len() > 40, "{defined:?}");
    let mut unknown = Vec::new();
    for (file, text) in repository.texts(".rs").chain(documents()) {
        unknown.extend(
            cited(&text).into_iter().filter(|rule| !defined.contains(rule)).map(|rule| (file.to_path_buf(), rule)),
        );
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}
