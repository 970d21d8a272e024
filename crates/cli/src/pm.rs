//! `--pm`: where the fast tier is.
//!
//! `PATH` alone means persistent memory that maps with `MAP_SYNC` (DAX); `emulated:PATH[,latency=NS][,model=line|persist]
//! [,bandwidth=MB/s]` means any file, mapped, that is to behave like it. PATH is the pool file itself. This version has
//! no DAX and imitates no latency: it reads both, so that it can say so instead of calling them misspelt.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use slmdb::Medium;

use crate::failure::{Failure, Result};

/// What `--pm` said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FastTier {
    /// A path on persistent memory.
    Dax(PathBuf),
    /// A file that imitates it.
    Emulated(Emulated),
}

/// `emulated:…`, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emulated {
    path: PathBuf,
    latency_ns: u64,
    model: Model,
    bandwidth_megabytes_per_second: Option<u64>,
}

/// What the added latency is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Model {
    /// Each 64-byte line written back.
    Line,
    /// Each fence that orders something.
    Persist,
}

impl FastTier {
    /// How clap reads it.
    pub fn parser() -> impl TypedValueParser<Value = FastTier> {
        OsStringValueParser::new().try_map(parse)
    }

    /// The medium it stands for, as far as this version has it.
    pub fn medium(&self) -> Result<Medium> {
        let emulated = match self {
            FastTier::Emulated(emulated) => emulated,
            FastTier::Dax(path) => {
                let path = path.display();
                return Err(Failure::unsupported(format!(
                    "persistent memory mapped with MAP_SYNC is not in this version yet [{path}]; imitate it with \
                     --pm emulated:{path}, or leave --pm out for a store that needs none"
                )));
            }
        };
        if emulated.latency_ns != 0
            || emulated.model != Model::Line
            || emulated.bandwidth_megabytes_per_second.is_some()
        {
            return Err(Failure::unsupported(format!(
                "this version imitates no latency and no bandwidth yet; give --pm emulated:{} alone",
                emulated.path.display()
            )));
        }
        Ok(Medium::Emulated { path: emulated.path.clone() })
    }
}

fn parse(argument: OsString) -> Result<FastTier, String> {
    let bytes = argument.as_bytes();
    let Some(emulated) = bytes.strip_prefix(b"emulated:") else {
        if bytes.is_empty() {
            return Err("a path is missing; give emulated:PATH".to_string());
        }
        return Ok(FastTier::Dax(PathBuf::from(argument)));
    };
    let mut parts = emulated.split(|&byte| byte == b',');
    let path = parts.next().unwrap_or_default();
    if path.is_empty() {
        return Err("a path is missing after `emulated:`".to_string());
    }
    let path = PathBuf::from(OsString::from_vec(path.to_vec()));
    let (mut latency, mut model, mut bandwidth) = (None, None, None);
    for part in parts {
        let part = OsStr::from_bytes(part).to_string_lossy();
        let given_twice = match part.split_once('=') {
            Some(("latency", value)) => latency.replace(number("latency", "nanoseconds", value)?).is_some(),
            Some(("bandwidth", value)) => {
                let bandwidth_now = number("bandwidth", "megabytes a second", value)?;
                if bandwidth_now == 0 {
                    return Err("`bandwidth` must be at least 1".to_string());
                }
                bandwidth.replace(bandwidth_now).is_some()
            }
            Some(("model", "line")) => model.replace(Model::Line).is_some(),
            Some(("model", "persist")) => model.replace(Model::Persist).is_some(),
            Some(("model", other)) => return Err(format!("`model` is `line` or `persist`, not `{other}`")),
            _ => return Err(format!("`{part}` is none of latency=NS, model=line|persist, bandwidth=MB/s")),
        };
        if given_twice {
            return Err(format!("`{part}` says a second time what was said before"));
        }
    }
    Ok(FastTier::Emulated(Emulated {
        path,
        latency_ns: latency.unwrap_or(0),
        model: model.unwrap_or(Model::Line),
        bandwidth_megabytes_per_second: bandwidth,
    }))
}

fn number(name: &str, unit: &str, value: &str) -> Result<u64, String> {
    if !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{name}` is a whole number of {unit}, not `{value}`"));
    }
    value.parse().map_err(|_| format!("`{name}` is a whole number of {unit}, not `{value}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<FastTier, String> {
        parse(OsString::from(text))
    }

    #[test]
    fn a_path_alone_is_dax_and_says_what_to_do_instead() {
        let tier = parsed("/mnt/pmem/pool").unwrap();
        assert_eq!(tier, FastTier::Dax(PathBuf::from("/mnt/pmem/pool")));
        let line = tier.medium().unwrap_err().line();
        assert!(line.starts_with("unsupported: ") && line.contains("emulated:/mnt/pmem/pool"), "{line}");
    }

    #[test]
    fn emulated_with_the_defaults_spelt_out_is_emulated() {
        for text in ["emulated:/x/pool", "emulated:/x/pool,latency=0", "emulated:/x/pool,model=line,latency=0"] {
            let medium = parsed(text).unwrap().medium().unwrap();
            assert_eq!(medium, Medium::Emulated { path: PathBuf::from("/x/pool") });
        }
    }

    #[test]
    fn latency_that_can_not_be_imitated_is_refused_by_its_kind() {
        for text in ["emulated:p,latency=500", "emulated:p,model=persist", "emulated:p,bandwidth=2000"] {
            let failure = parsed(text).unwrap().medium().unwrap_err();
            assert_eq!(failure.code(), 3);
            assert!(failure.line().starts_with("unsupported: "), "{}", failure.line());
        }
    }

    #[test]
    fn misspelt_is_a_usage_error() {
        for text in [
            "",
            "emulated:",
            "emulated:,latency=1",
            "emulated:p,",
            "emulated:p,latency",
            "emulated:p,latency=",
            "emulated:p,latency=-1",
            "emulated:p,latency=+1",
            "emulated:p,latency=99999999999999999999",
            "emulated:p,model=both",
            "emulated:p,bandwidth=0",
            "emulated:p,speed=1",
            "emulated:p,latency=0,latency=0",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
