//! [`StoreSpec`]: which store, and which variant of ours, by a name like `rocksdb` or
//! `slmdb:emulated,latency=500,model=line,policy=paper`.

use std::ffi::OsString;
use std::path::Path;

use slmdb::{CompactionOptions, CompactionPolicy, EngineName, LinkPolicy, Options};
use slmdb_bench::{EmptyOpener, Opener, SlmOpener};
use slmdb_cli::pm;
use slmdb_cli::units::parse_size;

use crate::engine_options::{EngineOptions, parse_part};
use crate::footing::{BLOCK_BYTES, Compression, Footing, WRITE_BUFFERS, mebibytes};
use crate::peers::{Levels, Peer, PeerOpener, rocksdb};

/// What the names mean, for `--help`.
pub const HELP: &str = "\
Stores, with commas between:
  slmdb                        on plain memory (Dram)
  slmdb:OPTION[,OPTION]...     a variant of it:
      emulated                 on emulated persistent memory, with latency=NS, model=line|persist, read=NS,
                               bandwidth=MB/s, unit=BYTES as for `slmdb --pm`; pools are made in --pools
      policy=garbage-first|paper   how table files are chosen for compaction
      engine=NAME              the design: slm, the default, lab, tlsm or chameleon
      index=memory|fast_fair   of engine=slm: its index on plain memory: the tree made for that, or the paper's
      level_zero=SIZE, level_base=SIZE, leaf_scan=PART
                               of engine=lab: its trees, its level 1, the part of a tree that leaves by leaf scan
      tiering=none|leveled:N|upper:SIZE|lru:SIZE
                               of engine=tlsm: which runs lie in the pool: all; those of levels 0 to N; of this size
                               together (1 GiB) those of the upper levels, the default, or the newest, as in the paper
      segment=SIZE, segment_live_min=PART, run=SIZE, filter=BITS
                               of engine=tlsm: its segments, what of one is needed or it is emptied, its lists, the bits
                               that their filters have for a key (0: none)
      level_base=SIZE, level_growth=N, level_zero_runs=N
                               of engine=tlsm: its level 1, how much larger the next is, how many runs level 0 has
      bac=on|off, persists=once|each
                               of engine=tlsm: whether compactions point at entries or copy them, whether lists are made
                               durable as a whole or node by node
      bypass=SIZE|all, shards=N, upper=flat|none
                               of engine=chameleon: its index in memory, or all of it; its shards; whether flushes leave a
                               table for openings, or none, which is the paper's Write-Intensive Mode
      dumped=N, dumped_above=N, job=SIZE
                               of engine=chameleon: how many bypasses are dumped where the last level has more than so many
                               times theirs; what a merge writes at a time
      links=rebuilt|persisted  what becomes of a MemTable's links
      live=PART                the live-key threshold of policy=paper (0.7)
      scans=on|off, degree=on|off
                               its leaf node scans, its degree of sequentiality of range queries
  rocksdb leveldb              Debian's
  leveldb:nvm                  all of it in --pools: TLSM's paper's LevelDB-NVM
  rocksdb:level_base=SIZE, rocksdb:nvm=SIZE[,level_base=SIZE]
                               with a level 1 of that, instead of 256 MiB; with the first levels in --pools, as many as fit into
                               that: the papers' RocksDB-NVM
  lmdb redb fjall              from crates.io; fjall:values=apart keeps values of 1 KiB and more in files of their own
  empty                        does nothing: what the bench itself takes";

/// A store to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreSpec {
    /// As it was named.
    pub name: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Slmdb(Variant),
    Peer(Peer),
    /// RocksDB that is told of its levels.
    RocksDb(Levels),
    /// LevelDB in memory.
    LevelDbNvm,
    Empty,
}

/// What is other than usual with ours.
#[derive(Debug, Clone, PartialEq)]
struct Variant {
    /// The design, if it is not the default one.
    engine: Option<EngineName>,
    /// What follows the path in `--pm emulated:PATH`, if it is on emulated persistent memory.
    emulation: Option<String>,
    policy_paper: bool,
    links_persisted: bool,
    live_key_threshold: f64,
    leaf_node_scans: bool,
    range_queries: bool,
    /// What the engine alone is told.
    own: EngineOptions,
}

impl Default for Variant {
    fn default() -> Variant {
        let usual = CompactionOptions::default();
        Variant {
            engine: None,
            emulation: None,
            policy_paper: false,
            links_persisted: false,
            live_key_threshold: usual.live_key_threshold,
            leaf_node_scans: usual.leaf_node_scans,
            range_queries: usual.range_queries,
            own: EngineOptions::None,
        }
    }
}

impl StoreSpec {
    /// Several, with commas between. A variant's options have commas between, too: what has a `=` before any `:` belongs to the
    /// store before it, and so does `emulated`, which no store is called.
    pub fn parse_list(text: &str) -> Result<Vec<StoreSpec>, String> {
        let mut names: Vec<String> = Vec::new();
        for part in text.split(',').map(str::trim) {
            match names.last_mut() {
                Some(name) if part == "emulated" || part.split(':').next().is_some_and(|first| first.contains('=')) => {
                    *name += &format!(",{part}");
                }
                _ => names.push(part.to_string()),
            }
        }
        let specs = names.iter().map(|name| StoreSpec::parse(name)).collect::<Result<Vec<_>, _>>()?;
        for (at, spec) in specs.iter().enumerate() {
            if specs[..at].iter().any(|before| before.name == spec.name) {
                return Err(format!("{} is named twice", spec.name));
            }
        }
        Ok(specs)
    }

    /// The one of that name.
    pub fn parse(name: &str) -> Result<StoreSpec, String> {
        let kind = match name.split_once(':') {
            _ if name == "empty" => Kind::Empty,
            None if name == "slmdb" => Kind::Slmdb(Variant::default()),
            Some(("slmdb", options)) => Kind::Slmdb(Variant::parse(options)?),
            Some(("rocksdb", options)) => Kind::RocksDb(parse_levels(options)?),
            _ if name == "leveldb:nvm" => Kind::LevelDbNvm,
            _ => Kind::Peer(Peer::by_name(name).ok_or_else(|| {
                let peers: Vec<&str> = Peer::ALL.iter().map(|peer| peer.name()).collect();
                format!("there is no store `{name}`; there are slmdb, slmdb:OPTIONS, {}, empty", peers.join(", "))
            })?),
        };
        Ok(StoreSpec { name: name.to_string(), kind })
    }

    /// Whether it has a pool that emulates persistent memory.
    pub fn has_pool(&self) -> bool {
        matches!(&self.kind, Kind::Slmdb(Variant { emulation: Some(_), .. }))
    }

    /// What makes and opens it, in `directory`, its pool, if it has one, at `pool`.
    pub fn opener(&self, directory: &Path, pool: &Path, footing: &Footing) -> Result<Box<dyn Opener>, String> {
        Ok(match &self.kind {
            Kind::Slmdb(variant) => {
                Box::new(SlmOpener::new(self.name.clone(), directory, variant.options(pool, footing)?))
            }
            Kind::Peer(peer) => Box::new(self.peer_opener(*peer, directory, pool, footing)),
            Kind::RocksDb(levels) => {
                Box::new(PeerOpener { levels: *levels, ..self.peer_opener(Peer::RocksDb, directory, pool, footing) })
            }
            Kind::LevelDbNvm => Box::new(self.peer_opener(Peer::LevelDb, pool, pool, footing)),
            Kind::Empty => Box::new(EmptyOpener),
        })
    }

    fn peer_opener(&self, peer: Peer, directory: &Path, fast: &Path, footing: &Footing) -> PeerOpener {
        let (name, levels, footing) = (self.name.clone(), Levels::default(), *footing);
        PeerOpener { name, peer, directory: directory.to_path_buf(), fast: fast.to_path_buf(), levels, footing }
    }

    /// What it may have in memory that it takes for persistent while it works, in bytes: what no memory limit is meant for. (A pool
    /// has its pages before the limit begins to count.)
    pub fn fast_path_bytes(&self, footing: &Footing) -> u64 {
        match &self.kind {
            Kind::RocksDb(levels) => levels.fast_path_bytes.unwrap_or(0),
            // What is old and new at once while files are merged, and the logs.
            Kind::LevelDbNvm => 2 * footing.data_bytes + 4 * footing.write_buffer_bytes,
            _ => 0,
        }
    }

    /// What it is, and how it is set up, in a line.
    pub fn setup(&self, footing: &Footing) -> String {
        match &self.kind {
            Kind::Slmdb(variant) => variant.setup(footing),
            Kind::Peer(peer) => peer.setup(footing),
            Kind::RocksDb(levels) => rocksdb::setup(*levels, footing),
            Kind::LevelDbNvm => format!("{}, all of it in memory", Peer::LevelDb.setup(footing)),
            Kind::Empty => "does nothing".to_string(),
        }
    }
}

impl Variant {
    fn parse(options: &str) -> Result<Variant, String> {
        let mut variant = Variant::default();
        let (mut details, mut own) = (Vec::new(), Vec::new());
        let mut emulated = false;
        for option in options.split(',') {
            match option.split_once('=') {
                None if option == "emulated" => emulated = true,
                Some(("engine", name)) => variant.engine = Some(name.parse().map_err(|error| format!("{error}"))?),
                Some(("policy", "paper")) => variant.policy_paper = true,
                Some(("policy", "garbage-first")) => variant.policy_paper = false,
                Some(("links", "persisted")) => variant.links_persisted = true,
                Some(("links", "rebuilt")) => variant.links_persisted = false,
                Some(("live", part)) => variant.live_key_threshold = parse_part("live", part)?,
                Some((name, value)) if EngineOptions::has(name) => own.push((name, value)),
                Some(("scans", word @ ("on" | "off"))) => variant.leaf_node_scans = word == "on",
                Some(("degree", word @ ("on" | "off"))) => variant.range_queries = word == "on",
                Some(("latency" | "model" | "read" | "bandwidth" | "unit", _)) => details.push(option),
                _ => {
                    return Err(format!(
                        "slmdb has no option `{option}`; there are engine=NAME, emulated, latency=NS, model=line|persist, read=NS, bandwidth=MB/s, \
                         unit=BYTES, policy=garbage-first|paper, links=rebuilt|persisted, live=PART, scans=on|off, degree=on|off, \
                         level_zero=SIZE, level_base=SIZE, leaf_scan=PART, tiering=none|leveled:N|upper:SIZE|lru:SIZE, \
                         persists=once|each, bac=on|off, filter=BITS, segment_live_min=PART, level_growth=N, level_zero_runs=N, \
                         segment=SIZE, run=SIZE"
                    ));
                }
            }
        }
        if emulated {
            variant.emulation = Some(details.iter().map(|option| format!(",{option}")).collect());
            // So that what is wrong is said before anything is measured.
            variant.medium(Path::new("pool"))?;
        } else if !details.is_empty() || variant.links_persisted {
            return Err("latency, model, read, bandwidth, unit and links=persisted are of `emulated`; name that, too"
                .to_string());
        }
        variant.own = EngineOptions::parse(variant.engine.unwrap_or_default(), &own)?;
        Ok(variant)
    }

    fn medium(&self, pool: &Path) -> Result<Options, String> {
        let Some(emulation) = &self.emulation else { return Ok(Options::default()) };
        let mut argument = OsString::from("emulated:");
        argument.push(pool);
        argument.push(emulation);
        Ok(pm::parse(argument)?.apply(Options::default()))
    }

    fn options(&self, pool: &Path, footing: &Footing) -> Result<Options, String> {
        let policy = if self.policy_paper { CompactionPolicy::Paper } else { CompactionPolicy::GarbageFirst };
        let links = if self.links_persisted { LinkPolicy::Persisted } else { LinkPolicy::Rebuilt };
        let mut options = self.medium(pool)?;
        if let Some(engine) = self.engine {
            options = options.engine(engine);
        }
        let options = self.own.apply(options);
        Ok(options
            .compression(compression(footing))
            .block_bytes(BLOCK_BYTES)
            .memory_budget_bytes(footing.memory_budget_bytes)
            .memtable_bytes(footing.write_buffer_bytes)
            .immutable_memtables_max(WRITE_BUFFERS - 1)
            .advanced(|advanced| advanced.memtable_links(links))
            .compaction(CompactionOptions {
                policy,
                live_key_threshold: self.live_key_threshold,
                leaf_node_scans: self.leaf_node_scans,
                range_queries: self.range_queries,
                ..CompactionOptions::default()
            })
            .pool_initial_bytes(self.pool_bytes(footing)))
    }

    /// The pool's first size: all that it is likely to need, so that it has its pages before a memory limit begins to count. Five
    /// MemTables (the default's most, and spares), for each key what the index takes and twice its record, old and new, while
    /// files are merged, and the runs that lie there.
    fn pool_bytes(&self, footing: &Footing) -> u64 {
        5 * footing.write_buffer_bytes + footing.keys * 2 * 96 + (16 << 20) + self.own.data_in_pool_bytes(footing)
    }

    fn setup(&self, footing: &Footing) -> String {
        let place = match &self.emulation {
            Some(emulation) => format!(
                "pool of {} at first (emulated persistent memory{})",
                mebibytes(self.pool_bytes(footing)),
                emulation.replace(',', ", ")
            ),
            None => "MemTables and index in plain memory".to_string(),
        };
        let policy = if let Some(setup) = self.own.setup() {
            setup
        } else if self.policy_paper {
            let switch = |is_on: bool| if is_on { "on" } else { "off" };
            format!(
                "policy paper (live-key threshold {}, leaf node scans {}, degree of sequentiality {})",
                self.live_key_threshold,
                switch(self.leaf_node_scans),
                switch(self.range_queries)
            )
        } else {
            "policy garbage-first".to_string()
        };
        format!(
            "memory budget {} for {}, MemTables of {}, blocks of {BLOCK_BYTES} bytes{}, {policy}, links {}; {place}",
            mebibytes(footing.memory_budget_bytes),
            if self.emulation.is_some() {
                "the cache and MemTables' lists"
            } else {
                "all of it, MemTables and index included"
            },
            mebibytes(footing.write_buffer_bytes),
            footing.compressed_by("LZ4"),
            if self.links_persisted { "persisted" } else { "rebuilt" },
        )
    }
}

/// As slmdb calls it.
fn compression(footing: &Footing) -> slmdb::Compression {
    match footing.compression {
        Compression::None => slmdb::Compression::None,
        Compression::Lz4 => slmdb::Compression::Lz4,
    }
}

/// What stands behind `rocksdb:`.
fn parse_levels(options: &str) -> Result<Levels, String> {
    let mut levels = Levels::default();
    for option in options.split(',') {
        match option.split_once('=') {
            Some(("nvm", size)) => levels.fast_path_bytes = Some(parse_size(size)?),
            Some(("level_base", size)) => levels.level_base_bytes = Some(parse_size(size)?),
            _ => return Err(format!("rocksdb has no option `{option}`; there are nvm=SIZE, level_base=SIZE")),
        }
    }
    Ok(levels)
}

/// Names of stores, with sizes for their placeholders, `{like this}`: each a name and bytes.
pub fn sized(names: &str, sizes: &[(&str, u64)]) -> String {
    let with = |names: String, &(name, bytes): &(&str, u64)| {
        names.replace(&format!("{{{name}}}"), &format!("{}KiB", bytes >> 10))
    };
    sizes.iter().fold(names.to_string(), with)
}

#[cfg(test)]
mod tests {
    use slmdb::LabOptions;

    use super::*;

    fn lab_variant(own: LabOptions) -> Kind {
        Kind::Slmdb(Variant { engine: Some(EngineName::Lab), own: EngineOptions::Lab(own), ..Variant::default() })
    }

    #[test]
    fn a_list_is_read_as_it_is_meant() {
        let text =
            "slmdb,slmdb:emulated,latency=500,model=line,policy=paper,rocksdb,fjall:values=apart,slmdb:policy=paper";
        let specs = StoreSpec::parse_list(text).unwrap();
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        let emulated = "slmdb:emulated,latency=500,model=line,policy=paper";
        assert_eq!(names, ["slmdb", emulated, "rocksdb", "fjall:values=apart", "slmdb:policy=paper"]);
        let other_order = StoreSpec::parse_list("slmdb:policy=paper,emulated,latency=500,lmdb").unwrap();
        assert_eq!(other_order[0].name, "slmdb:policy=paper,emulated,latency=500");
        assert_eq!(other_order.len(), 2);
        let variant = Variant {
            emulation: Some(",latency=500,model=line".to_string()),
            policy_paper: true,
            ..Variant::default()
        };
        assert_eq!(specs[1].kind, Kind::Slmdb(variant));
        let with_pool: Vec<bool> = specs.iter().map(StoreSpec::has_pool).collect();
        assert_eq!(with_pool, [false, true, false, false, false]);
        let switched = Variant { live_key_threshold: 0.6, leaf_node_scans: false, ..Variant::default() };
        assert_eq!(StoreSpec::parse("slmdb:engine=lab").unwrap().kind, lab_variant(LabOptions::default()));
        let sized = StoreSpec::parse("slmdb:engine=lab,level_zero=5MiB,leaf_scan=0.8").unwrap();
        let options = LabOptions { level_zero_bytes: 5 << 20, leaf_scan_part: 0.8, ..LabOptions::default() };
        assert_eq!(sized.kind, lab_variant(options));
        let tiered = StoreSpec::parse_list(
            "slmdb:engine=tlsm,tiering=lru:64MiB,filter=8,emulated,slmdb:tiering=leveled:1,engine=tlsm",
        );
        let names: Vec<String> = tiered.unwrap().into_iter().map(|spec| spec.name).collect();
        assert_eq!(
            names,
            ["slmdb:engine=tlsm,tiering=lru:64MiB,filter=8,emulated", "slmdb:tiering=leveled:1,engine=tlsm"]
        );
        let on_nvm = StoreSpec::parse_list("rocksdb:nvm=8MiB,level_base=1MiB,rocksdb").unwrap();
        let levels = Levels { fast_path_bytes: Some(8 << 20), level_base_bytes: Some(1 << 20) };
        assert_eq!(on_nvm[0].kind, Kind::RocksDb(levels));
        let based = StoreSpec::parse("rocksdb:level_base=1MiB").unwrap();
        assert_eq!(based.kind, Kind::RocksDb(Levels { fast_path_bytes: None, ..levels }));
        let in_memory = StoreSpec::parse_list("leveldb,leveldb:nvm").unwrap();
        assert_eq!(in_memory[1].kind, Kind::LevelDbNvm);
        let footing = Footing {
            memory_budget_bytes: 16 << 20,
            write_buffer_bytes: 1 << 20,
            data_bytes: 4 << 20,
            keys: 1000,
            compression: Compression::None,
            memory_limit_bytes: None,
        };
        let outside = [&on_nvm[0], &on_nvm[1], &based, &in_memory[0], &in_memory[1]];
        assert_eq!(outside.map(|spec| spec.fast_path_bytes(&footing) >> 20), [8, 0, 0, 0, 12]);
        let slow = StoreSpec::parse("slmdb:emulated,model=persist,latency=300,read=200").unwrap();
        assert_eq!(slow.name, "slmdb:emulated,model=persist,latency=300,read=200");
        let emulation = Some(",model=persist,latency=300,read=200".to_string());
        assert_eq!(slow.kind, Kind::Slmdb(Variant { emulation, ..Variant::default() }));
        let spec = StoreSpec::parse("slmdb:live=0.6,scans=off,degree=on").unwrap();
        assert_eq!(spec.kind, Kind::Slmdb(switched));
    }

    #[test]
    fn what_is_wrong_is_said_at_once() {
        for (text, part) in [
            ("slmdb,slmdb", "twice"),
            ("sqlite", "no store `sqlite`"),
            ("slmdb:fast", "no option `fast`"),
            ("slmdb:latency=500", "emulated"),
            ("slmdb:engine=rocksdb", "no engine"),
            ("slmdb:links=persisted", "emulated"),
            ("slmdb:emulated,latency=x", "latency"),
            ("slmdb:emulated,read=1000001", "read latency"),
            ("slmdb:read=200", "emulated"),
            ("slmdb:emulated,model=both", "model"),
            ("slmdb:live=2", "from 0 to 1"),
            ("slmdb:scans=maybe", "no option"),
            ("fjall:values=here", "no store"),
            ("slmdb:level_zero=5MiB", "engine=lab"),
            ("slmdb:engine=lab,level_zero=1", "level_zero_bytes"),
            ("slmdb:engine=lab,tiering=none", "engine=tlsm"),
            ("slmdb:engine=tlsm,tiering=lru:x", "a size"),
            ("slmdb:engine=lab,leaf_scan=2", "from 0 to 1"),
            ("rocksdb:level_base=large", "a size"),
            ("leveldb:fast", "no store"),
            ("rocksdb:nvm=all", "a size"),
            ("rocksdb:fast", "no option"),
            ("", "no store"),
        ] {
            let error = StoreSpec::parse_list(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
