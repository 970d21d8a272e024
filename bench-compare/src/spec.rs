//! [`StoreSpec`]: which store, and which variant of ours, by a name like `rocksdb` or
//! `slmdb:emulated,latency=500,model=line,policy=paper`.

use std::ffi::OsString;
use std::path::Path;

use slmdb::{CompactionOptions, CompactionPolicy, EngineName, LabOptions, LinkPolicy, Options};
use slmdb_bench::{EmptyOpener, Opener, SlmOpener};
use slmdb_cli::pm;
use slmdb_cli::units::parse_size;

use crate::footing::{BLOCK_BYTES, Compression, Footing, WRITE_BUFFERS, mebibytes};
use crate::peers::{FastPath, FastPathSizes, Peer, PeerOpener, rocksdb};

/// RocksDB's default.
const ROCKSDB_LEVEL_BASE_BYTES: u64 = 256 << 20;

/// What the names mean, for `--help`.
pub const HELP: &str = "\
Stores, with commas between:
  slmdb                        on plain memory (Dram)
  slmdb:OPTION[,OPTION]...     a variant of it:
      emulated                 on emulated persistent memory, with latency=NS, model=line|persist, read=NS,
                               bandwidth=MB/s, unit=BYTES as for `slmdb --pm`; pools are made in --pools
      policy=garbage-first|paper   how table files are chosen for compaction
      engine=NAME              the design: slm, the default, or lab
      level_zero=SIZE, level_base=SIZE, leaf_scan=PART
                               of engine=lab: its trees, its level 1, the part of a tree that leaves by leaf scan
      links=rebuilt|persisted  what becomes of a MemTable's links
      live=PART                the live-key threshold of policy=paper (0.7)
      scans=on|off, degree=on|off
                               its leaf node scans, its degree of sequentiality of range queries
  rocksdb leveldb              Debian's
  rocksdb:nvm=SIZE[,level_base=SIZE]
                               with the first levels in --pools, as many as fit into that: the papers' RocksDB-NVM. Level 1 has
                               256 MiB, or level_base
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
    /// RocksDB with its first levels in memory.
    RocksDbNvm(FastPathSizes),
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
    lab: LabOptions,
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
            lab: LabOptions::default(),
        }
    }
}

impl StoreSpec {
    /// Several, with commas between. A variant's options have commas between, too: what has a `=` and no `:` belongs to the store
    /// before it, and so does `emulated`, which no store is called.
    pub fn parse_list(text: &str) -> Result<Vec<StoreSpec>, String> {
        let mut names: Vec<String> = Vec::new();
        for part in text.split(',').map(str::trim) {
            match names.last_mut() {
                Some(name) if (part == "emulated" || part.contains('=')) && !part.contains(':') => {
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
            Some(("rocksdb", options)) => Kind::RocksDbNvm(parse_fast_path(options)?),
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
            Kind::Peer(peer) => Box::new(self.peer_opener(*peer, directory, None, footing)),
            Kind::RocksDbNvm(sizes) => {
                let fast_path = FastPath { directory: pool.to_path_buf(), sizes: *sizes };
                Box::new(self.peer_opener(Peer::RocksDb, directory, Some(fast_path), footing))
            }
            Kind::Empty => Box::new(EmptyOpener),
        })
    }

    fn peer_opener(&self, peer: Peer, directory: &Path, fast_path: Option<FastPath>, footing: &Footing) -> PeerOpener {
        PeerOpener { name: self.name.clone(), peer, directory: directory.to_path_buf(), fast_path, footing: *footing }
    }

    /// What it may have in memory that it takes for persistent while it works, in bytes: what no memory limit is meant for. (A pool
    /// has its pages before the limit begins to count.)
    pub fn fast_path_bytes(&self) -> u64 {
        match &self.kind {
            Kind::RocksDbNvm(sizes) => sizes.bytes,
            _ => 0,
        }
    }

    /// What it is, and how it is set up, in a line.
    pub fn setup(&self, footing: &Footing) -> String {
        match &self.kind {
            Kind::Slmdb(variant) => variant.setup(footing),
            Kind::Peer(peer) => peer.setup(footing),
            Kind::RocksDbNvm(sizes) => rocksdb::setup(Some(*sizes), footing),
            Kind::Empty => "does nothing".to_string(),
        }
    }
}

impl Variant {
    fn parse(options: &str) -> Result<Variant, String> {
        let mut variant = Variant::default();
        let mut details = Vec::new();
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
                Some(("level_zero", size)) => variant.lab.level_zero_bytes = parse_size(size)?,
                Some(("level_base", size)) => variant.lab.level_base_bytes = parse_size(size)?,
                Some(("leaf_scan", part)) => variant.lab.leaf_scan_part = parse_part("leaf_scan", part)?,
                Some(("scans", word @ ("on" | "off"))) => variant.leaf_node_scans = word == "on",
                Some(("degree", word @ ("on" | "off"))) => variant.range_queries = word == "on",
                Some(("latency" | "model" | "read" | "bandwidth" | "unit", _)) => details.push(option),
                _ => {
                    return Err(format!(
                        "slmdb has no option `{option}`; there are engine=NAME, emulated, latency=NS, model=line|persist, read=NS, bandwidth=MB/s, \
                         unit=BYTES, policy=garbage-first|paper, links=rebuilt|persisted, live=PART, scans=on|off, degree=on|off, \
                         level_zero=SIZE, level_base=SIZE, leaf_scan=PART"
                    ));
                }
            }
        }
        if emulated {
            variant.emulation = Some(details.iter().map(|option| format!(",{option}")).collect());
            // So that what is wrong is said before anything is measured.
            variant.medium(Path::new("pool"))?;
        } else if !details.is_empty() || variant.links_persisted {
            return Err(
                "latency, model, read, bandwidth, unit and links=persisted are of `emulated`; name that, too".to_string()
            );
        }
        if variant.lab != LabOptions::default() && variant.engine != Some(EngineName::Lab) {
            return Err("level_zero, level_base and leaf_scan are of `engine=lab`; name that, too".to_string());
        }
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
        Ok(options
            .compression(compression(footing))
            .block_bytes(BLOCK_BYTES)
            .memory_budget_bytes(footing.memory_budget_bytes)
            .memtable_bytes(footing.write_buffer_bytes)
            .immutable_memtables_max(WRITE_BUFFERS - 1)
            .advanced(|advanced| advanced.memtable_links(links).lab(self.lab.clone()))
            .compaction(CompactionOptions {
                policy,
                live_key_threshold: self.live_key_threshold,
                leaf_node_scans: self.leaf_node_scans,
                range_queries: self.range_queries,
                ..CompactionOptions::default()
            })
            .pool_initial_bytes(pool_bytes(footing)))
    }

    fn setup(&self, footing: &Footing) -> String {
        let place = match &self.emulation {
            Some(emulation) => format!(
                "pool of {} at first (emulated persistent memory{})",
                mebibytes(pool_bytes(footing)),
                emulation.replace(',', ", ")
            ),
            None => "MemTables and index in plain memory".to_string(),
        };
        let policy = if self.engine == Some(EngineName::Lab) {
            format!(
                "engine lab (trees of {}, level 1 of {}, leaf scans of {})",
                mebibytes(self.lab.level_zero_bytes),
                mebibytes(self.lab.level_base_bytes),
                self.lab.leaf_scan_part
            )
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

fn parse_part(name: &str, text: &str) -> Result<f64, String> {
    let part = text.parse::<f64>().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| format!("{name}={text}: give a part, from 0 to 1, like 0.7"))
}

/// What stands behind `rocksdb:`.
fn parse_fast_path(options: &str) -> Result<FastPathSizes, String> {
    let (mut bytes, mut level_base_bytes) = (None, ROCKSDB_LEVEL_BASE_BYTES);
    for option in options.split(',') {
        match option.split_once('=') {
            Some(("nvm", size)) => bytes = Some(parse_size(size)?),
            Some(("level_base", size)) => level_base_bytes = parse_size(size)?,
            _ => return Err(format!("rocksdb has no option `{option}`; there are nvm=SIZE, level_base=SIZE")),
        }
    }
    let bytes = bytes.ok_or("level_base is of `rocksdb:nvm=SIZE`; name that, too")?;
    Ok(FastPathSizes { bytes, level_base_bytes })
}

/// The pool's first size: all that it is likely to need, so that it has its pages before a memory limit begins to count. Five
/// MemTables (the default's most, and spares), and for each key what the index takes and twice its record, old and new, while
/// files are merged.
fn pool_bytes(footing: &Footing) -> u64 {
    5 * footing.write_buffer_bytes + footing.keys * 2 * 96 + (16 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab_variant() -> Variant {
        Variant { engine: Some(EngineName::Lab), ..Variant::default() }
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
        assert_eq!(StoreSpec::parse("slmdb:engine=lab").unwrap().kind, Kind::Slmdb(lab_variant()));
        let sized = StoreSpec::parse("slmdb:engine=lab,level_zero=5MiB,leaf_scan=0.8").unwrap();
        let options = LabOptions { level_zero_bytes: 5 << 20, leaf_scan_part: 0.8, ..LabOptions::default() };
        assert_eq!(sized.kind, Kind::Slmdb(Variant { lab: options, ..lab_variant() }));
        let on_nvm = StoreSpec::parse_list("rocksdb:nvm=8MiB,level_base=1MiB,rocksdb").unwrap();
        assert_eq!(on_nvm[0].kind, Kind::RocksDbNvm(FastPathSizes { bytes: 8 << 20, level_base_bytes: 1 << 20 }));
        assert_eq!((on_nvm[0].fast_path_bytes(), on_nvm[1].fast_path_bytes()), (8 << 20, 0));
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
            ("slmdb:engine=lab,leaf_scan=2", "from 0 to 1"),
            ("rocksdb:level_base=5MiB", "nvm=SIZE"),
            ("rocksdb:nvm=all", "a size"),
            ("rocksdb:fast", "no option"),
            ("", "no store"),
        ] {
            let error = StoreSpec::parse_list(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
