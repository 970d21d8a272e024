//! `--pm`: where the fast tier is.
//!
//! `PATH` alone means persistent memory, a file that maps with `MAP_SYNC` (DAX) or a device-dax; `emulated:PATH[,latency=NS][,model=line|persist]
//! [,read=NS][,bandwidth=MB/s][,unit=BYTES]` means any file, mapped, that is to behave like it. PATH is the pool file itself. It is
//! remembered by the store; what is emulated holds for one opening.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

#[cfg(feature = "command")]
use clap::builder::{OsStringValueParser, TypedValueParser};
use slmdb::{Emulation, LatencyModel, Medium, Options};

/// What `--pm` said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FastTier {
    /// A path on persistent memory.
    Dax(PathBuf),
    /// A file that emulates it, and how.
    Emulated {
        /// The pool file.
        path: PathBuf,
        /// The time it takes.
        emulation: Emulation,
        /// Its write unit, if it is not the usual one.
        unit_bytes: Option<u64>,
    },
}

impl FastTier {
    /// How clap reads it.
    #[cfg(feature = "command")]
    pub fn parser() -> impl TypedValueParser<Value = FastTier> {
        OsStringValueParser::new().try_map(parse)
    }

    /// The options that it stands for, added to others.
    pub fn apply(&self, options: Options) -> Options {
        match self {
            FastTier::Dax(path) => options.medium(Medium::Dax { path: path.clone() }),
            FastTier::Emulated { path, emulation, unit_bytes } => {
                let options = options
                    .medium(Medium::Emulated { path: path.clone() })
                    .advanced(|advanced| advanced.emulation(*emulation));
                unit_bytes
                    .map_or(options.clone(), |bytes| options.advanced(|advanced| advanced.media_unit_bytes(bytes)))
            }
        }
    }
}

/// What the argument says, or what is wrong with it.
pub fn parse(argument: OsString) -> Result<FastTier, String> {
    let bytes = argument.as_bytes();
    let Some(emulated) = bytes.strip_prefix(b"emulated:") else {
        if bytes.is_empty() {
            return Err("a path is missing; give PATH or emulated:PATH".to_string());
        }
        return Ok(FastTier::Dax(PathBuf::from(argument)));
    };
    let mut parts = emulated.split(|&byte| byte == b',');
    let path = parts.next().unwrap_or_default();
    if path.is_empty() {
        return Err("a path is missing after `emulated:`".to_string());
    }
    let path = PathBuf::from(OsString::from_vec(path.to_vec()));
    let (mut latency, mut model, mut read, mut bandwidth, mut unit) = (None, None, None, None, None);
    for part in parts {
        let part = OsStr::from_bytes(part).to_string_lossy();
        let given_twice = match part.split_once('=') {
            Some(("latency", value)) => latency.replace(number("latency", "nanoseconds", value)?).is_some(),
            Some(("read", value)) => read.replace(number("read", "nanoseconds", value)?).is_some(),
            Some(("bandwidth", value)) => {
                bandwidth.replace(number("bandwidth", "megabytes a second", value)?).is_some()
            }
            Some(("unit", value)) => unit.replace(number("unit", "bytes", value)?).is_some(),
            Some(("model", "line")) => model.replace(LatencyModel::Line).is_some(),
            Some(("model", "persist")) => model.replace(LatencyModel::Persist).is_some(),
            Some(("model", other)) => return Err(format!("`model` is `line` or `persist`, not `{other}`")),
            _ => {
                let known = "latency=NS, model=line|persist, read=NS, bandwidth=MB/s, unit=BYTES";
                return Err(format!("`{part}` is none of {known}"));
            }
        };
        if given_twice {
            return Err(format!("`{part}` says a second time what was said before"));
        }
    }
    let emulation = Emulation {
        latency_ns: latency.unwrap_or(0),
        model: model.unwrap_or_default(),
        bandwidth_megabytes_per_second: bandwidth,
        read_latency_ns: read.unwrap_or(0),
    };
    emulation.check().map_err(|error| error.to_string())?;
    if unit.is_some_and(|bytes| !bytes.is_power_of_two() || !(64..=4096).contains(&bytes)) {
        return Err("`unit` is a power of two from 64 to 4096 bytes".to_string());
    }
    Ok(FastTier::Emulated { path, emulation, unit_bytes: unit })
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
    fn a_path_alone_is_dax() {
        assert_eq!(parsed("/mnt/pmem/pool"), Ok(FastTier::Dax(PathBuf::from("/mnt/pmem/pool"))));
    }

    #[test]
    fn emulation_options_are_read_in_any_order() {
        let emulated =
            |emulation, unit_bytes| Ok(FastTier::Emulated { path: PathBuf::from("/x/pool"), emulation, unit_bytes });
        for text in ["emulated:/x/pool", "emulated:/x/pool,latency=0", "emulated:/x/pool,model=line,latency=0"] {
            assert_eq!(parsed(text), emulated(Emulation::default(), None));
        }
        let emulation = Emulation {
            latency_ns: 500,
            model: LatencyModel::Persist,
            bandwidth_megabytes_per_second: Some(2000),
            read_latency_ns: 200,
        };
        for text in [
            "emulated:/x/pool,latency=500,model=persist,read=200,bandwidth=2000,unit=64",
            "emulated:/x/pool,unit=64,bandwidth=2000,read=200,model=persist,latency=500",
        ] {
            assert_eq!(parsed(text), emulated(emulation, Some(64)));
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
            "emulated:p,latency=1000001",
            "emulated:p,read=",
            "emulated:p,read=200,read=200",
            "emulated:p,unit=0",
            "emulated:p,unit=100",
            "emulated:p,unit=8192",
            "emulated:p,model=both",
            "emulated:p,bandwidth=0",
            "emulated:p,speed=1",
            "emulated:p,latency=0,latency=0",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
        for (text, said) in [
            ("emulated:p,read=1000001", "an added read latency is at most 1000000 ns, not 1000001"),
            ("emulated:p,read=fast", "`read` is a whole number of nanoseconds, not `fast`"),
            ("emulated:p,speed=1", "read=NS"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
