//! [`EngineOptions`]: what a variant of ours tells one engine alone, as in `slmdb:engine=tlsm,tiering=lru:64MiB`.

use slmdb::{ChameleonOptions, DramIndex, EngineName, LabOptions, Options, Tiering, TlsmOptions, UpperLevels};
use slmdb_cli::units::parse_size;
use slmdb_engine::OwnOptions;

use crate::footing::{Footing, mebibytes};

/// Their names, and whose they are.
const NAMES: [(&str, &[EngineName]); 19] = [
    ("index", &[EngineName::Slm]),
    ("level_zero", &[EngineName::Lab]),
    ("leaf_scan", &[EngineName::Lab]),
    ("level_base", &[EngineName::Lab, EngineName::Tlsm]),
    ("tiering", &[EngineName::Tlsm]),
    ("persists", &[EngineName::Tlsm]),
    ("bac", &[EngineName::Tlsm]),
    ("filter", &[EngineName::Tlsm]),
    ("segment_live_min", &[EngineName::Tlsm]),
    ("level_growth", &[EngineName::Tlsm]),
    ("level_zero_runs", &[EngineName::Tlsm]),
    ("segment", &[EngineName::Tlsm]),
    ("run", &[EngineName::Tlsm]),
    ("bypass", &[EngineName::Chameleon]),
    ("shards", &[EngineName::Chameleon]),
    ("upper", &[EngineName::Chameleon]),
    ("dumped", &[EngineName::Chameleon]),
    ("dumped_above", &[EngineName::Chameleon]),
    ("job", &[EngineName::Chameleon]),
];
/// A slot of ChameleonDB's tables in the pool takes about so many bytes.
const HASH_SLOT_BYTES: u64 = 30;

/// What one engine alone is told.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineOptions {
    /// Of an engine that is told nothing.
    None,
    /// SLM-DB's, on plain memory.
    Slm(DramIndex),
    /// LAB-DB's.
    Lab(LabOptions),
    /// TLSM's.
    Tlsm(TlsmOptions),
    /// ChameleonDB's.
    Chameleon(ChameleonOptions),
}

impl EngineOptions {
    /// Whether an option of this name is one of an engine's.
    pub fn has(name: &str) -> bool {
        NAMES.iter().any(|(other, _)| *other == name)
    }

    /// These options, each a name and a value, of this engine.
    pub fn parse(engine: EngineName, options: &[(&str, &str)]) -> Result<EngineOptions, String> {
        for (name, engines) in options.iter().filter_map(|(name, _)| NAMES.iter().find(|(other, _)| other == name)) {
            if !engines.contains(&engine) {
                let engines: Vec<String> = engines.iter().map(|engine| format!("`engine={engine}`")).collect();
                return Err(format!("{name} is of {}; name that, too", engines.join(" or ")));
            }
        }
        let (parsed, complaint) = match engine {
            EngineName::Slm if !options.is_empty() => (EngineOptions::Slm(parse_slm(options)?), None),
            EngineName::Lab => {
                let own = parse_lab(options)?;
                let complaint = own.complaint();
                (EngineOptions::Lab(own), complaint)
            }
            EngineName::Tlsm => {
                let own = parse_tlsm(options)?;
                let complaint = own.complaint();
                (EngineOptions::Tlsm(own), complaint)
            }
            EngineName::Chameleon => {
                let own = parse_chameleon(options)?;
                let complaint = own.complaint();
                (EngineOptions::Chameleon(own), complaint)
            }
            _ => (EngineOptions::None, None),
        };
        complaint.map_or(Ok(parsed), |complaint| Err(format!("engine={engine}: {complaint}")))
    }

    /// The options of a store with these.
    pub fn apply(&self, options: Options) -> Options {
        match self.clone() {
            EngineOptions::None => options,
            EngineOptions::Slm(index) => options.advanced(|advanced| advanced.dram_index(index)),
            EngineOptions::Lab(own) => options.advanced(|advanced| advanced.lab(own)),
            EngineOptions::Tlsm(own) => options.advanced(|advanced| advanced.tlsm(own)),
            EngineOptions::Chameleon(own) => options.advanced(|advanced| advanced.chameleon(own)),
        }
    }

    /// What a pool has of the data, in bytes, with what is old and new at once while runs are merged, and with level 0.
    pub fn data_in_pool_bytes(&self, footing: &Footing) -> u64 {
        let all_bytes = footing.data_bytes.saturating_mul(2);
        match self {
            EngineOptions::Tlsm(TlsmOptions { tiering: Tiering::Upper | Tiering::Lru, fast_tier_bytes, .. }) => {
                let more_bytes = (fast_tier_bytes / 4).max(8 * footing.write_buffer_bytes);
                all_bytes.min(fast_tier_bytes.saturating_add(more_bytes))
            }
            EngineOptions::Tlsm(_) => all_bytes,
            // The tables of the last level, with what is new beside it, and those of flushes.
            EngineOptions::Chameleon(_) => footing.keys.saturating_mul(4 * HASH_SLOT_BYTES),
            EngineOptions::None | EngineOptions::Slm(_) | EngineOptions::Lab(_) => 0,
        }
    }

    /// The engine and its options, in a few words; nothing of one that is told nothing.
    pub fn setup(&self) -> Option<String> {
        match self {
            EngineOptions::None => None,
            EngineOptions::Slm(DramIndex::MemoryTree) => Some("engine slm (a tree for plain memory)".to_string()),
            EngineOptions::Slm(DramIndex::FastFair) => Some("engine slm (FAST and FAIR)".to_string()),
            EngineOptions::Lab(own) => Some(format!(
                "engine lab (trees of {}, level 1 of {}, leaf scans of {})",
                mebibytes(own.level_zero_bytes),
                mebibytes(own.level_base_bytes),
                own.leaf_scan_part
            )),
            EngineOptions::Tlsm(own) => Some(setup_of_tlsm(own)),
            EngineOptions::Chameleon(own) => Some(setup_of_chameleon(own)),
        }
    }
}

fn parse_slm(options: &[(&str, &str)]) -> Result<DramIndex, String> {
    let mut index = DramIndex::default();
    for &(name, value) in options {
        index = one_of(name, value, &[("memory", DramIndex::MemoryTree), ("fast_fair", DramIndex::FastFair)])?;
    }
    Ok(index)
}

fn setup_of_chameleon(own: &ChameleonOptions) -> String {
    let bypasses = match own.bypass_bytes {
        None => "bypasses of a quarter of the budget".to_string(),
        Some(u64::MAX) => "all of the index in memory".to_string(),
        Some(bytes) => format!("bypasses of {}", mebibytes(bytes)),
    };
    let upper = match own.upper_levels {
        UpperLevels::Flat => "a table of each flush",
        UpperLevels::None => "none of flushes",
    };
    let shards = own.shards.map_or("shards by MemTables".to_string(), |shards| format!("{shards} shards"));
    format!(
        "engine chameleon ({shards}, {bypasses}; {upper}, up to {} dumped where the last level has more than {} times theirs; merges of {})",
        own.dumped_tables_max,
        own.dumped_above,
        mebibytes(own.job_bytes),
    )
}

fn setup_of_tlsm(own: &TlsmOptions) -> String {
    let or = |bytes: u64, usual: &str| if bytes == 0 { usual.to_string() } else { mebibytes(bytes) };
    let in_pool = match own.tiering {
        Tiering::None => "all".to_string(),
        Tiering::Leveled { last_in_pool } => format!("those down to level {last_in_pool}"),
        Tiering::Upper => format!("{} of the upper levels", mebibytes(own.fast_tier_bytes)),
        Tiering::Lru => format!("the newest {}", mebibytes(own.fast_tier_bytes)),
    };
    format!(
        "engine tlsm (runs in a pool: {in_pool}; lists of {}, filters of {} bits, {}, {}, segments of {} KiB with {} needed at least; \
         level 0 of {} runs, level 1 of {}, each next one {} times as large)",
        or(own.run_bytes, "half a table file"),
        own.list_filter_bits,
        if own.points_at_entries { "entries pointed at" } else { "entries copied" },
        if own.persists_each_node { "made durable node by node" } else { "made durable at once" },
        own.segment_bytes >> 10,
        own.segment_live_min,
        own.level_zero_runs,
        or(own.level_base_bytes, "four MemTables"),
        own.level_growth,
    )
}

fn parse_lab(options: &[(&str, &str)]) -> Result<LabOptions, String> {
    let mut own = LabOptions::default();
    for &(name, value) in options {
        match name {
            "level_zero" => own.level_zero_bytes = parse_size(value)?,
            "level_base" => own.level_base_bytes = parse_size(value)?,
            _ => own.leaf_scan_part = parse_part(name, value)?,
        }
    }
    Ok(own)
}

fn parse_tlsm(options: &[(&str, &str)]) -> Result<TlsmOptions, String> {
    let mut own = TlsmOptions::default();
    for &(name, value) in options {
        match name {
            "tiering" => (own.tiering, own.fast_tier_bytes) = parse_tiering(value, own.fast_tier_bytes)?,
            "persists" => own.persists_each_node = one_of(name, value, &[("once", false), ("each", true)])?,
            "bac" => own.points_at_entries = one_of(name, value, &[("on", true), ("off", false)])?,
            "filter" => own.list_filter_bits = parse_number(name, value)?,
            "segment_live_min" => own.segment_live_min = parse_part(name, value)?,
            "level_base" => own.level_base_bytes = parse_size(value)?,
            "level_growth" => own.level_growth = parse_number(name, value)?,
            "level_zero_runs" => own.level_zero_runs = parse_number(name, value)?,
            "segment" => own.segment_bytes = parse_size(value)?,
            _ => own.run_bytes = parse_size(value)?,
        }
    }
    Ok(own)
}

fn parse_chameleon(options: &[(&str, &str)]) -> Result<ChameleonOptions, String> {
    let mut own = ChameleonOptions::default();
    for &(name, value) in options {
        match name {
            "bypass" if value == "all" => own.bypass_bytes = Some(u64::MAX),
            "bypass" => own.bypass_bytes = Some(parse_size(value)?),
            "shards" => own.shards = Some(parse_number(name, value)?),
            "upper" => {
                own.upper_levels = one_of(name, value, &[("flat", UpperLevels::Flat), ("none", UpperLevels::None)])?;
            }
            "dumped" => own.dumped_tables_max = parse_number(name, value)?,
            "dumped_above" => own.dumped_above = parse_number(name, value)?,
            _ => own.job_bytes = parse_size(value)?,
        }
    }
    Ok(own)
}

/// Which runs lie in the pool, and what they may take of it, which is the usual unless it is given.
fn parse_tiering(value: &str, usual_bytes: u64) -> Result<(Tiering, u64), String> {
    match value.split_once(':') {
        None if value == "none" => Ok((Tiering::None, usual_bytes)),
        None if value == "upper" => Ok((Tiering::Upper, usual_bytes)),
        None if value == "lru" => Ok((Tiering::Lru, usual_bytes)),
        Some(("upper", size)) => Ok((Tiering::Upper, parse_size(size)?)),
        Some(("lru", size)) => Ok((Tiering::Lru, parse_size(size)?)),
        Some(("leveled", level)) => {
            Ok((Tiering::Leveled { last_in_pool: parse_number("tiering=leveled", level)? }, usual_bytes))
        }
        _ => Err(format!("tiering={value}: give none, leveled:N, upper:SIZE or lru:SIZE")),
    }
}

fn one_of<T: Copy>(name: &str, value: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(word, _)| *word == value);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        format!("{name}={value}: give {}", words.join(" or "))
    })
}

fn parse_number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name}={text}: give a number, like 4"))
}

/// A part, from 0 to 1.
pub fn parse_part(name: &str, text: &str) -> Result<f64, String> {
    let part = text.parse::<f64>().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| format!("{name}={text}: give a part, from 0 to 1, like 0.7"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &str) -> Result<TlsmOptions, String> {
        let options: Vec<_> = options.split(',').filter_map(|option| option.split_once('=')).collect();
        match EngineOptions::parse(EngineName::Tlsm, &options)? {
            EngineOptions::Tlsm(own) => Ok(own),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_option_of_tlsm_is_read() {
        let usual = TlsmOptions::default;
        assert_eq!(parsed(""), Ok(usual()));
        assert_eq!(parsed("tiering=upper"), Ok(usual()));
        assert_eq!(parsed("tiering=lru"), Ok(TlsmOptions { tiering: Tiering::Lru, ..usual() }));
        let bounded = |tiering| Ok(TlsmOptions { tiering, fast_tier_bytes: 64 << 20, ..usual() });
        assert_eq!(parsed("tiering=upper:64MiB"), bounded(Tiering::Upper));
        assert_eq!(parsed("tiering=lru:64MiB"), bounded(Tiering::Lru));
        let leveled = TlsmOptions { tiering: Tiering::Leveled { last_in_pool: 2 }, ..usual() };
        assert_eq!(parsed("tiering=leveled:2"), Ok(leveled));
        let all = TlsmOptions {
            tiering: Tiering::None,
            fast_tier_bytes: usual().fast_tier_bytes,
            run_bytes: 1 << 20,
            segment_bytes: 64 << 10,
            segment_live_min: 0.25,
            list_filter_bits: 8,
            points_at_entries: false,
            persists_each_node: true,
            level_base_bytes: 5 << 20,
            level_growth: 4,
            level_zero_runs: 3,
        };
        let text = "tiering=none,run=1MiB,segment=64KiB,segment_live_min=0.25,filter=8,bac=off,persists=each,\
                    level_base=5MiB,level_growth=4,level_zero_runs=3";
        assert_eq!(parsed(text), Ok(all));
        assert_eq!(parsed("bac=on,persists=once"), Ok(usual()));
    }

    #[test]
    fn what_tlsm_can_not_have_is_refused_by_its_name() {
        for (text, part) in [
            ("tiering=some", "leveled:N"),
            ("tiering=leveled", "leveled:N"),
            ("tiering=leveled:x", "tiering=leveled"),
            ("tiering=leveled:7", "last_in_pool"),
            ("tiering=lru:some", "a size"),
            ("tiering=lru:1K", "fast_tier_bytes"),
            ("persists=twice", "persists=twice"),
            ("bac=1", "bac=1"),
            ("filter=-1", "filter=-1"),
            ("filter=65", "list_filter_bits"),
            ("segment_live_min=2", "segment_live_min=2"),
            ("level_growth=1", "level_growth"),
            ("level_zero_runs=0", "level_zero_runs"),
            ("segment=1K", "segment_bytes"),
            ("run=large", "a size"),
            ("level_zero=5MiB", "`engine=lab`"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn each_option_of_chameleon_is_read_or_refused_by_its_name() {
        let parsed = |text: &str| -> Result<ChameleonOptions, String> {
            let options: Vec<_> = text.split(',').filter_map(|option| option.split_once('=')).collect();
            match EngineOptions::parse(EngineName::Chameleon, &options)? {
                EngineOptions::Chameleon(own) => Ok(own),
                other => panic!("{other:?}"),
            }
        };
        let usual = ChameleonOptions::default;
        assert_eq!(parsed(""), Ok(usual()));
        assert_eq!(parsed("bypass=all"), Ok(ChameleonOptions { bypass_bytes: Some(u64::MAX), ..usual() }));
        let all = ChameleonOptions {
            shards: Some(64),
            bypass_bytes: Some(1 << 20),
            upper_levels: UpperLevels::None,
            dumped_tables_max: 4,
            dumped_above: 9,
            job_bytes: 1 << 20,
        };
        assert_eq!(parsed("shards=64,bypass=1MiB,upper=none,dumped=4,dumped_above=9,job=1MiB"), Ok(all));
        for (text, part) in [
            ("bypass=some", "a size"),
            ("shards=3", "shards"),
            ("shards=x", "shards=x"),
            ("upper=level", "flat or none"),
            ("dumped=-1", "dumped=-1"),
            ("job=0", "job_bytes"),
            ("filter=8", "`engine=tlsm`"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn options_of_an_engine_want_that_engine() {
        let refused = |engine, name| EngineOptions::parse(engine, &[(name, "5MiB")]).unwrap_err();
        assert!(refused(EngineName::Slm, "level_base").contains("`engine=lab` or `engine=tlsm`"));
        assert!(refused(EngineName::Lab, "segment").contains("segment is of `engine=tlsm`"));
        assert!(NAMES.iter().all(|(name, _)| EngineOptions::has(name)) && !EngineOptions::has("policy"));
    }

    #[test]
    fn a_pool_has_what_its_policy_lets_it_have() {
        let footing = Footing {
            memory_budget_bytes: 0,
            write_buffer_bytes: 0,
            data_bytes: 100 << 20,
            keys: 0,
            compression: crate::footing::Compression::None,
            memory_limit_bytes: None,
        };
        let bytes = |text: &str| EngineOptions::Tlsm(parsed(text).unwrap()).data_in_pool_bytes(&footing) >> 20;
        assert_eq!(["tiering=none", "tiering=upper:40MiB", "tiering=lru:400MiB"].map(bytes), [200, 50, 200]);
        let buffered = Footing { write_buffer_bytes: 2 << 20, ..footing };
        let small = EngineOptions::Tlsm(parsed("tiering=lru:40MiB").unwrap());
        assert_eq!(small.data_in_pool_bytes(&buffered) >> 20, 56);
        assert_eq!(EngineOptions::None.data_in_pool_bytes(&footing), 0);
    }

    #[test]
    fn the_setup_says_what_is_in_the_pool() {
        let setup = |text: &str| EngineOptions::Tlsm(parsed(text).unwrap()).setup().unwrap();
        assert!(setup("tiering=lru:40MiB").contains("the newest 40 MiB"));
        assert!(setup("tiering=upper:40MiB").contains("40 MiB of the upper levels"));
        assert!(setup("tiering=leveled:1").contains("down to level 1"));
        let usual = setup("segment_live_min=0.25");
        assert!(usual.contains("0.25 needed") && usual.contains("level 1 of four MemTables"), "{usual}");
        assert_eq!(EngineOptions::None.setup(), None);
    }
}
