//! What is compared, and by what: [`DESIGNS`] on [`MEDIA`], and [`works`].

use crate::spec::sized;

/// Bytes of the keys of db_bench's benchmarks.
pub(super) const KEY_BYTES: u64 = 20;

/// A design of slmdb.
pub(super) struct Design {
    /// What it is called.
    name: &'static str,
    /// What it is told.
    options: &'static str,
    /// Its variants with a pool: what each is called, and what it is told besides.
    in_pool: &'static [(&'static str, &'static str)],
}

/// All there are; multiples are of the first.
const DESIGNS: &[Design] = &[
    Design { name: "slm", options: "", in_pool: &[("slm", "")] },
    Design { name: "lab", options: ",engine=lab,level_zero={trees},level_base=32MiB", in_pool: &[("lab", "")] },
    Design {
        name: "tlsm",
        options: ",engine=tlsm,level_base=32MiB",
        in_pool: &[("tlsm, a third", ",tiering=upper:{third}"), ("tlsm, all", ",tiering=none")],
    },
    Design { name: "chameleon", options: ",engine=chameleon,bypass={bypass}", in_pool: &[("chameleon", "")] },
];

/// Other stores, on plain memory.
const PEERS: &[(&str, &str)] = &[("RocksDB", "rocksdb:level_base=32MiB")];

/// Where MemTables and indexes are.
pub(super) struct Medium {
    /// What it is called.
    pub name: &'static str,
    /// What a store is told of its pool, if it has one.
    emulation: Option<&'static str>,
    /// Only works that say so are done there.
    is_slow: bool,
}

/// All there are.
pub(super) const MEDIA: [Medium; 4] = [
    Medium { name: "plain memory", emulation: None, is_slow: false },
    Medium { name: "a pool", emulation: Some("emulated"), is_slow: false },
    Medium {
        name: "a pool like persistent memory",
        emulation: Some("emulated,model=persist,latency=300,read=200,bandwidth=2000,unit=256"),
        is_slow: true,
    },
    Medium {
        name: "a pool like a memory expander",
        emulation: Some("emulated,model=persist,latency=150,read=150,bandwidth=20000,unit=64"),
        is_slow: true,
    },
];

/// A store of a work.
#[derive(Debug)]
pub(super) struct Store {
    /// Its design, or its name.
    pub label: &'static str,
    /// Which of [`MEDIA`].
    pub medium: usize,
    /// What `--stores` calls it.
    pub name: String,
}

/// What every store does, one thing after the other.
pub(super) struct Work {
    /// What `--only` calls it.
    pub name: &'static str,
    /// Its keys and values.
    pub about: &'static str,
    /// Keys.
    pub keys: u64,
    /// Bytes of each value.
    pub value_bytes: u64,
    /// It is done with slow pools, too.
    pub is_on_slow_pools: bool,
    /// Its memory limit and its memory budget, in bytes, if not all of it is in memory.
    pub memory: Option<(u64, u64)>,
    /// In this order.
    pub steps: Vec<Step>,
}

/// One thing that is done.
pub(super) struct Step {
    /// What columns call it.
    pub label: &'static str,
    /// As `--benchmarks` has it.
    does: &'static str,
    /// How many operations, if not as many as there are keys.
    operations: Option<u64>,
}

impl Step {
    /// As an argument, with this part of the operations.
    pub fn argument(&self, scale: f64) -> String {
        let operations = self.operations.map(|operations| format!(":operations={}", part(operations, scale)));
        format!("{}{}", self.does, operations.unwrap_or_default())
    }
}

/// This part of a number, and one at least.
fn part(number: u64, scale: f64) -> u64 {
    ((number as f64 * scale) as u64).max(1)
}

impl Work {
    /// How many keys it has with this part of them.
    pub fn keys(&self, scale: f64) -> u64 {
        part(self.keys, scale).max(100)
    }

    /// The stores, medium after medium. What a design bounds is as its paper has it, to the data, and what the engine takes at
    /// least.
    pub fn stores(&self, scale: f64) -> Vec<Store> {
        let keys = self.keys(scale);
        let sizes = [
            // LAB-DB: 16 of 90 million keys; a key takes 63 bytes.
            ("trees", (keys * 18 / 100 * 63).max(128 << 10)),
            // TLSM: four segments at least.
            ("third", (keys * (KEY_BYTES + self.value_bytes) / 3).max(1 << 20)),
            // ChameleonDB: a quarter of the keys; a key takes 32 bytes.
            ("bypass", (keys / 4 * 32).max(64 << 10)),
        ];
        let mut stores = Vec::new();
        for (medium, Medium { emulation, is_slow, .. }) in MEDIA.iter().enumerate() {
            if *is_slow && !self.is_on_slow_pools {
                continue;
            }
            let mut add = |label, name: &str| stores.push(Store { label, medium, name: sized(name, &sizes) });
            for design in DESIGNS {
                match emulation {
                    None if design.options.is_empty() => add(design.name, "slmdb"),
                    None => add(design.name, &format!("slmdb:{}", &design.options[1..])),
                    Some(emulation) => design.in_pool.iter().for_each(|(label, more)| {
                        add(label, &format!("slmdb:{emulation}{}{more}", design.options));
                    }),
                }
            }
            if emulation.is_none() {
                PEERS.iter().for_each(|(label, name)| add(label, name));
            }
        }
        stores
    }
}

const fn step(label: &'static str, does: &'static str) -> Step {
    Step { label, does, operations: None }
}

const fn some(label: &'static str, does: &'static str, operations: u64) -> Step {
    Step { label, does, operations: Some(operations) }
}

/// All of it, in this order.
pub(super) fn works() -> Vec<Work> {
    let mixed = |name, about, keys, value_bytes, ranges| Work {
        name,
        about,
        keys,
        value_bytes,
        is_on_slow_pools: false,
        memory: None,
        steps: vec![
            step("fill", "filluniquerandom"),
            step("flush", "flush"),
            step("rest", "waitforcompaction"),
            some("gets", "readrandom", keys / 2),
            some("missing keys", "readmissing", keys / 2),
            some("ranges", "seekrandom", ranges),
            step("keys in order", "readseq"),
            some("overwrites", "overwrite", keys / 2),
            step("second flush", "flush"),
            step("second rest", "waitforcompaction"),
            some("ranges, aged", "seekrandom", ranges),
            step("opening", "recover"),
        ],
    };
    vec![
        Work {
            is_on_slow_pools: true,
            ..mixed("small", "2 million keys, values of 100 bytes", 2_000_000, 100, 20_000)
        },
        mixed("medium", "500,000 keys, values of 1 KiB", 500_000, 1 << 10, 20_000),
        mixed("large", "30,000 keys, values of 16 KiB", 30_000, 16 << 10, 2_000),
        Work {
            name: "skew",
            about: "YCSB, 500,000 records of 1 KiB, two threads",
            keys: 500_000,
            value_bytes: 1 << 10,
            is_on_slow_pools: true,
            memory: None,
            steps: vec![
                step("fill", "ycsbload"),
                step("A, uniform", "ycsba:request_distribution=uniform"),
                step("A, Zipf 0.7", "ycsba:zipf=0.7"),
                step("A, Zipf 0.99", "ycsba:zipf=0.99"),
                step("C", "ycsbc"),
            ],
        },
        Work {
            name: "larger",
            about: "YCSB, 2 million records of 1 KiB in 512 MiB of memory, pools outside it",
            keys: 2_000_000,
            value_bytes: 1 << 10,
            is_on_slow_pools: false,
            memory: Some((512 << 20, 128 << 20)),
            steps: vec![
                step("fill", "ycsbload:threads=1"),
                step("rest", "waitforcompaction"),
                some("gets beyond memory", "ycsbc:threads=1:request_distribution=uniform", 20_000),
                some("A beyond memory", "ycsba", 200_000),
            ],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::StoreSpec;
    use crate::step;

    #[test]
    fn every_store_and_every_step_is_one_that_there_is() {
        for work in works() {
            for scale in [1.0, 0.0001] {
                let stores = work.stores(scale);
                let names: Vec<&str> = stores.iter().map(|store| store.name.as_str()).collect();
                let specs = StoreSpec::parse_list(&names.join(",")).unwrap();
                assert_eq!(specs.iter().map(|spec| &spec.name).collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
                let media = if work.is_on_slow_pools { 4 } else { 2 };
                assert_eq!(stores.iter().filter(|store| store.label == DESIGNS[0].name).count(), media);
                for step in &work.steps {
                    step::Step::parse(&step.argument(scale)).unwrap();
                }
            }
        }
    }

    #[test]
    fn sizes_follow_the_data() {
        let names = |scale| works()[1].stores(scale).into_iter().map(|store| store.name).collect::<Vec<_>>();
        let whole = names(1.0);
        assert_eq!(whole[1], "slmdb:engine=lab,level_zero=5537KiB,level_base=32MiB");
        assert_eq!(whole[7], "slmdb:emulated,engine=tlsm,level_base=32MiB,tiering=upper:169921KiB");
        assert_eq!(names(0.0001)[7], "slmdb:emulated,engine=tlsm,level_base=32MiB,tiering=upper:1024KiB");
    }
}
