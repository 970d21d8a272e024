//! Bytes that cross: options, batches, reports. What comes from Java is checked.

use std::ops::Bound;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::Value;
use slmdb::{CompactionPolicy, Compression, Error, Medium, Options, SharedOptions, WriteBatch};

use crate::failure::{Failure, Result};

/// An entry of a block begins with the length of its key and that of its value, in bytes: 32 bits each, the highest first. Key and
/// value follow.
pub const ENTRY_HEADER_BYTES: usize = 8;

/// A change of a batch that puts: this byte, then as an entry.
const PUT: u8 = 1;

/// A change of a batch that deletes: this byte, then the length of the key in 32 bits, and the key.
const DELETE: u8 = 0;

/// A change of a batch that deletes a range: this byte, then as an entry, whose key and value are the bounds.
const DELETE_RANGE: u8 = 2;

/// The length of a bound that there is not.
const NO_BOUND: usize = u32::MAX as usize;

/// What is left of packed bytes.
struct Packed<'a>(&'a [u8]);

impl<'a> Packed<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or_else(|| {
            Error::invalid(format!("a batch was cut: {bytes} bytes should follow, and {} do", self.0.len()))
        })?;
        self.0 = rest;
        Ok(taken)
    }

    fn length(&mut self) -> Result<usize> {
        Ok(self.take(4)?.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)))
    }

    fn bound(&mut self, bytes: usize) -> Result<Option<&'a [u8]>> {
        if bytes == NO_BOUND { Ok(None) } else { self.take(bytes).map(Some) }
    }
}

/// The batch that Java has packed.
pub fn batch(bytes: &[u8]) -> Result<WriteBatch> {
    let (mut packed, mut batch) = (Packed(bytes), WriteBatch::new());
    while let [kind, rest @ ..] = packed.0 {
        packed.0 = rest;
        let key_bytes = packed.length()?;
        match *kind {
            PUT => {
                let value_bytes = packed.length()?;
                let key = packed.take(key_bytes)?;
                batch.put(key, packed.take(value_bytes)?)?;
            }
            DELETE => batch.delete(packed.take(key_bytes)?)?,
            DELETE_RANGE => {
                let to_bytes = packed.length()?;
                let (from, to) = (packed.bound(key_bytes)?, packed.bound(to_bytes)?);
                let from = from.map_or(Bound::Unbounded, Bound::Included);
                batch.delete_range::<&[u8]>((from, to.map_or(Bound::Unbounded, Bound::Excluded)))?;
            }
            other => return Err(Error::invalid(format!("a batch has a change of the unknown kind {other}")).into()),
        }
    }
    Ok(batch)
}

/// The options that Java has written: a name, a zero byte, the value, a zero byte; and so on.
pub fn options(text: &str) -> Result<Options> {
    named_values(text).try_fold(Options::default(), |options, (name, value)| with(options, name, value))
}

/// Options of what stores have in common, written the same way.
pub fn shared_options(text: &str) -> Result<SharedOptions> {
    let mut options = SharedOptions::default();
    for (name, value) in named_values(text) {
        match name {
            "memory_budget_bytes" => options.memory_budget_bytes = parsed(name, value)?,
            "threads" => options.threads = parsed(name, value)?,
            "open_tables_max" => options.open_tables_max = parsed(name, value)?,
            _ => return Err(no_option(name)),
        }
    }
    Ok(options)
}

fn named_values(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut words = text.split_terminator('\0');
    std::iter::from_fn(move || Some((words.next()?, words.next().unwrap_or_default())))
}

fn with(options: Options, name: &str, value: &str) -> Result<Options> {
    Ok(match name {
        "create_if_missing" => options.create_if_missing(parsed(name, value)?),
        "error_if_exists" => options.error_if_exists(parsed(name, value)?),
        "read_only" => options.read_only(parsed(name, value)?),
        "engine" => options.engine(value.parse()?),
        "medium" => options.medium(medium(value)?),
        "caches_are_persistent" => options.caches_are_persistent(parsed(name, value)?),
        "sync" => options.sync(parsed(name, value)?),
        "memory_budget_bytes" => options.memory_budget_bytes(parsed(name, value)?),
        "memtable_bytes" => options.memtable_bytes(parsed(name, value)?),
        "immutable_memtables_max" => options.immutable_memtables_max(parsed(name, value)?),
        "block_bytes" => options.block_bytes(parsed(name, value)?),
        "compression" => options.compression(compression(value)?),
        "open_tables_max" => options.open_tables_max(parsed(name, value)?),
        "compaction_policy" => options.compaction_policy(compaction_policy(value)?),
        "compaction_threads" => options.compaction_threads(parsed(name, value)?),
        "space_amplification_max" => options.space_amplification_max(parsed(name, value)?),
        "pool_initial_bytes" => options.pool_initial_bytes(parsed(name, value)?),
        "pool_growth_bytes" => options.pool_growth_bytes(parsed(name, value)?),
        "pool_maximum_bytes" => options.pool_maximum_bytes(parsed(name, value)?),
        _ => return Err(no_option(name)),
    })
}

fn no_option(name: &str) -> Failure {
    Error::invalid(format!("there is no option {name:?}")).into()
}

fn parsed<T: FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| Error::invalid(format!("the option {name} can't be {value}")).into())
}

fn medium(value: &str) -> Result<Medium> {
    match value.split_once(':') {
        None if value == "dram" => Ok(Medium::Dram),
        Some(("emulated", path)) if !path.is_empty() => Ok(Medium::Emulated { path: PathBuf::from(path) }),
        Some(("dax", path)) if !path.is_empty() => Ok(Medium::Dax { path: PathBuf::from(path) }),
        _ => {
            let what = format!("the medium is \"dram\", \"emulated:PATH\" or \"dax:PATH\", not {value:?}");
            Err(Error::invalid(what).into())
        }
    }
}

fn compression(value: &str) -> Result<Compression> {
    match value {
        "none" => Ok(Compression::None),
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd),
        _ => {
            let what = format!("the compression is \"none\", \"lz4\" or \"zstd\", not {value:?}");
            Err(Error::invalid(what).into())
        }
    }
}

fn compaction_policy(value: &str) -> Result<CompactionPolicy> {
    match value {
        "garbage-first" => Ok(CompactionPolicy::GarbageFirst),
        "manual" => Ok(CompactionPolicy::Manual),
        "paper" => Ok(CompactionPolicy::Paper),
        _ => {
            let what = format!("the compaction policy is \"garbage-first\", \"manual\" or \"paper\", not {value:?}");
            Err(Error::invalid(what).into())
        }
    }
}

/// A report for Java: a name, a zero byte, the value, a zero byte; and so on. A name that is there several times is a list.
#[derive(Default)]
pub struct Report(String);

impl Report {
    /// With another value.
    pub fn with(mut self, name: &str, value: impl ToString) -> Report {
        // Nothing of ours has a zero byte in it; a text of the system's could.
        for text in [name, &value.to_string()] {
            self.0.extend(text.chars().map(|letter| if letter == '\0' { '\u{fffd}' } else { letter }));
            self.0.push('\0');
        }
        self
    }

    /// With a list.
    pub fn with_all<T: ToString>(self, name: &str, values: impl IntoIterator<Item = T>) -> Report {
        values.into_iter().fold(self, |report, value| report.with(name, value))
    }

    /// With all values of a JSON document, under the names that lead to them, with dots between. A value begins with its kind: `i` a
    /// whole number, `f` another, `w` a word.
    pub fn with_json(self, name: &str, value: &Value) -> Report {
        let below = |inner: &str| if name.is_empty() { inner.to_string() } else { format!("{name}.{inner}") };
        match value {
            Value::Object(map) => map.iter().fold(self, |report, (key, value)| report.with_json(&below(key), value)),
            Value::Array(list) => {
                let numbered = list.iter().enumerate();
                numbered.fold(self, |report, (number, value)| report.with_json(&below(&number.to_string()), value))
            }
            Value::Number(number) if number.is_f64() => self.with(name, format!("f{number}")),
            Value::Number(number) => self.with(name, format!("i{number}")),
            Value::String(word) => self.with(name, format!("w{word}")),
            Value::Bool(_) | Value::Null => self.with(name, format!("w{value}")),
        }
    }

    /// As Java reads it.
    pub fn text(self) -> String {
        self.0
    }
}

/// The entries of a block.
#[cfg(test)]
pub fn unpacked(block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut packed, mut entries) = (Packed(block), Vec::new());
    while !packed.0.is_empty() {
        let (key_bytes, value_bytes) = (packed.length().unwrap(), packed.length().unwrap());
        let key = packed.take(key_bytes).unwrap().to_vec();
        entries.push((key, packed.take(value_bytes).unwrap().to_vec()));
    }
    entries
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use slmdb::Change;

    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    enum Made {
        Put(Vec<u8>, Vec<u8>),
        Delete(Vec<u8>),
        DeleteRange(Bound<Vec<u8>>, Bound<Vec<u8>>),
    }

    fn some_changes(most: usize) -> impl Strategy<Value = Vec<Made>> {
        let change = prop_oneof![
            any::<(Vec<u8>, Vec<u8>)>().prop_map(|(key, value)| Made::Put(key, value)),
            any::<Vec<u8>>().prop_map(Made::Delete),
            any::<(Option<Vec<u8>>, Option<Vec<u8>>)>().prop_map(|(from, to)| {
                let (from, to) = (from.map(Bound::Included), to.map(Bound::Excluded));
                Made::DeleteRange(from.unwrap_or(Bound::Unbounded), to.unwrap_or(Bound::Unbounded))
            }),
        ];
        prop::collection::vec(change, 0..most)
    }

    fn packed(changes: &[Made]) -> Vec<u8> {
        fn key(bound: &Bound<Vec<u8>>) -> Option<&Vec<u8>> {
            match bound {
                Bound::Included(key) | Bound::Excluded(key) => Some(key),
                Bound::Unbounded => None,
            }
        }
        let mut bytes = Vec::new();
        for change in changes {
            let (kind, parts) = match change {
                Made::Put(key, value) => (PUT, vec![Some(key), Some(value)]),
                Made::Delete(key) => (DELETE, vec![Some(key)]),
                Made::DeleteRange(from, to) => (DELETE_RANGE, vec![key(from), key(to)]),
            };
            bytes.push(kind);
            for part in &parts {
                bytes.extend(part.map_or(u32::MAX, |part| part.len() as u32).to_be_bytes());
            }
            bytes.extend(parts.into_iter().flatten().flatten());
        }
        bytes
    }

    proptest! {
        #[test]
        fn batches_come_out_as_they_were_packed(changes in some_changes(20)) {
            let batch = batch(&packed(&changes)).unwrap();
            let unpacked: Vec<_> = batch.iter().map(|change| match change {
                Change::Put { key, value } => Made::Put(key.to_vec(), value.to_vec()),
                Change::Delete { key } => Made::Delete(key.to_vec()),
                Change::DeleteRange { range: (from, to) } => {
                    Made::DeleteRange(from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec))
                }
            }).collect();
            prop_assert_eq!(unpacked, changes);
        }

        #[test]
        fn any_bytes_are_a_batch_or_an_error(
            changes in some_changes(5),
            cut in any::<prop::sample::Index>(),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let mut bytes = packed(&changes);
            for (place, flip) in flips {
                if !bytes.is_empty() {
                    let place = place.index(bytes.len());
                    bytes[place] ^= flip;
                }
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            let _ = batch(&bytes);
        }

        #[test]
        fn any_text_is_options_or_an_error(text in any::<String>()) {
            let _ = (options(&text), shared_options(&text));
        }
    }

    #[test]
    fn a_batch_that_was_cut_or_has_an_unknown_change_is_refused() {
        let put = Made::Put(b"key".to_vec(), b"value".to_vec());
        for change in [put, Made::DeleteRange(Bound::Included(b"from".to_vec()), Bound::Unbounded)] {
            let whole = packed(&[change]);
            for end in 1..whole.len() {
                assert!(batch(&whole[..end]).unwrap_err().to_string().contains("cut"));
            }
        }
        assert!(batch(&[7, 0, 0, 0, 0]).unwrap_err().to_string().contains("unknown kind 7"));
        assert!(batch(&[DELETE, 0xff, 0xff, 0xff, 0xff]).unwrap_err().to_string().contains("4294967295"));
    }

    #[test]
    fn every_option_has_a_name() {
        let all = "create_if_missing\0false\0error_if_exists\0true\0read_only\0false\0engine\0lab\0medium\0emulated:/a\nb\0\
            caches_are_persistent\0false\0sync\0true\0memory_budget_bytes\x001\0memtable_bytes\x004096\0\
            immutable_memtables_max\x002\0block_bytes\x004096\0compression\0none\0open_tables_max\x0010\0\
            compaction_policy\0manual\0compaction_threads\x001\0space_amplification_max\x001.5\0\
            pool_initial_bytes\x001\0pool_growth_bytes\x001\0pool_maximum_bytes\x001\0";
        let shown = format!("{:?}", options(all).unwrap());
        assert!(shown.contains("Emulated") && shown.contains("a\\nb") && shown.contains("Manual"), "{shown}");
        for (wrong, said) in [
            ("colour\0red\0", "no option \"colour\""),
            ("sync\0maybe\0", "sync can't be maybe"),
            ("memtable_bytes\0-1\0", "memtable_bytes can't be -1"),
            ("memtable_bytes\0", "memtable_bytes can't be "),
            ("medium\0emulated:\0", "medium is"),
            ("compression\0rar\0", "compression is"),
            ("compaction_policy\0never\0", "policy is"),
            ("engine\0steam\0", "steam"),
        ] {
            let error = options(wrong).unwrap_err().to_string();
            assert!(error.contains(said), "{wrong:?}: {error}");
        }
    }

    #[test]
    fn what_stores_share_has_options_of_its_own() {
        let all = "memory_budget_bytes\x001\0threads\x003\0open_tables_max\x002\0";
        let SharedOptions { memory_budget_bytes, threads, open_tables_max } = shared_options(all).unwrap();
        assert_eq!((memory_budget_bytes, threads, open_tables_max), (1, 3, 2));
        for (wrong, said) in [("sync\0true\0", "no option \"sync\""), ("threads\0-1\0", "threads can't be -1")] {
            let error = shared_options(wrong).unwrap_err().to_string();
            assert!(error.contains(said), "{wrong:?}: {error}");
        }
    }

    #[test]
    fn a_report_has_names_and_values_in_turn() {
        let json = serde_json::json!({ "a": 1, "b": { "c": [1.5, "x"], "d": true } });
        let text = Report::default().with("n", "nul\0nul").with_all("l", [1, 2]).with_json("", &json).text();
        assert_eq!(text, "n\0nul\u{fffd}nul\0l\x001\0l\x002\0a\0i1\0b.c.0\0f1.5\0b.c.1\0wx\0b.d\0wtrue\0");
    }
}
