//! What fuzzing has gathered and found, through the same functions, with mutations of it: `fuzz/corpus` and
//! `fuzz/regressions`, a directory for each target. `SLMDB_TEST_BUDGET` multiplies the mutations; `SLMDB_MAKE_CORPUS=yes`
//! writes the inputs that fuzzing begins with, `SLMDB_MAKE_SOUND_STORES=yes` the stores that are edited (`fuzz/sound`). Damage that must be noticed is tested beside it where it needs the same images.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use slmdb_hostile::{Mode, Target, mutate, tree};
use slmdb_testkit::Random;

/// No input takes so long, on the slowest machine.
const LONGEST: Duration = Duration::from_secs(60);

/// Tests run one at a time: memory is counted for the process, and what another test reads meanwhile would count, too.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn inputs(kind: &str, target: Target) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(kind).join(target.name());
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn budget() -> f64 {
    std::env::var("SLMDB_TEST_BUDGET").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0)
}

/// Runs an input on a thread of its own, so that one that does not end is told; and says which it was, in a form that can be
/// kept as a regression. A panic of a thread that the store started counts, too.
fn run(target: Target, what: &str, input: &[u8]) {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let before = PANICS.load(Ordering::SeqCst);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        eprintln!("{info}");
    }));
    let owned = input.to_vec();
    let thread = std::thread::spawn(move || target.run(&owned));
    let started = Instant::now();
    while !thread.is_finished() && started.elapsed() < LONGEST {
        if started.elapsed() < Duration::from_millis(2) {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    std::panic::set_hook(usual);
    let ended = thread.is_finished();
    if ended && thread.join().is_ok() && PANICS.load(Ordering::SeqCst) == before {
        return;
    }
    let file = std::env::temp_dir().join(format!("slmdb-hostile-{}-{:08x}", target.name(), fingerprint(input)));
    let kept = std::fs::write(&file, input).map(|()| file);
    let fate = if ended { "has failed" } else { "does not end" };
    panic!("{}: {what} {fate}; the input is in {kept:?}", target.name());
}

fn fingerprint(input: &[u8]) -> u32 {
    input.iter().fold(0x811c_9dc5, |hash: u32, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn check(target: Target, mutations: u32) {
    let _alone = alone();
    let mut all = inputs("corpus", target);
    assert!(!all.is_empty(), "{}: the corpus is gone", target.name());
    all.extend(inputs("regressions", target));
    all.extend(target.seeds().into_iter().map(|seed| (PathBuf::from("a seed"), seed)));
    for (path, input) in &all {
        run(target, &path.display().to_string(), input);
    }
    let mut random = Random(u64::from(mutations));
    for round in 0..(f64::from(mutations) * budget()) as u32 {
        let mut input = all[random.below(all.len() as u64) as usize].1.clone();
        mutate(&mut input, &mut random);
        run(target, &format!("mutation {round}"), &input);
    }
    println!("{}: {} inputs", target.name(), all.len());
}

macro_rules! targets {
    ($($name:ident: $target:ident, $mutations:literal;)*) => {
        $(#[test]
        fn $name() {
            check(Target::$target, $mutations);
        })*

        #[test]
        fn every_target_is_replayed() {
            assert_eq!([$(Target::$target),*], Target::ALL);
        }
    };
}

targets! {
    table: Table, 3000;
    manifest: Manifest, 5000;
    checkpoint: Checkpoint, 3000;
    arena: Arena, 3000;
    pool: Pool, 1000;
    tree: Tree, 3000;
    import: Import, 10000;
    store_dram: StoreDram, 300;
    store_emulated: StoreEmulated, 300;
    table_by_key: TableByKey, 3000;
    store_image: StoreImage, 300;
    list: List, 1000;
    hash_table: HashTable, 3000;
}

#[test]
fn the_inputs_that_fuzzing_begins_with_are_kept() {
    let _alone = alone();
    let make = std::env::var_os("SLMDB_MAKE_CORPUS").is_some();
    for target in Target::ALL {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target.name());
        if make {
            std::fs::create_dir_all(&directory).unwrap();
            for seed in target.seeds() {
                std::fs::write(directory.join(format!("seed-{:08x}", fingerprint(&seed))), seed).unwrap();
            }
        }
        assert!(inputs("corpus", target).iter().any(|(_, input)| target.seeds().contains(input)), "{target:?}");
    }
}

/// A store that is edited is opened as it was written, whoever has written it; after a change of a format, new ones are made.
#[test]
fn the_stores_that_are_edited_are_sound() {
    let _alone = alone();
    if std::env::var_os("SLMDB_MAKE_SOUND_STORES").is_some() {
        slmdb_hostile::make_sound_stores().unwrap();
    }
    for target in [Target::StoreDram, Target::StoreEmulated, Target::StoreImage] {
        // (Closed and killed; for reading alone as well.)
        for mode in [0, Mode::OPTION, 1 << Mode::SOUND_SHIFT, 1 << Mode::SOUND_SHIFT | Mode::OPTION] {
            run(target, "a store that nobody edited", &[mode]);
        }
    }
}

/// A word of a node that matters, set to something else: it is not overlooked.
#[test]
fn a_damaged_tree_is_reported_by_verify() {
    let _alone = alone();
    let image = tree::image((0..300_u32).map(|number| (number * 7919 % 300).to_be_bytes().to_vec()).collect());
    assert!(!image.is_reported(image.bytes.clone()));
    let mut found = 0;
    for &node in &image.nodes {
        for place in [16, 24, 32, 40, 64, 72, 88] {
            let at = (node + place) as usize;
            let mut bytes = image.bytes.clone();
            let is_free =
                place >= 64 && bytes[node as usize + 64 + (place as usize - 64) / 16 * 16 + 8..][..8] == [0; 8];
            let has_no_fences = place == 40 && bytes[node as usize + 34..][..6] == [0; 6];
            if is_free || has_no_fences {
                continue;
            }
            bytes[at] ^= 0x40;
            assert!(image.is_reported(bytes), "node {node} + {place}");
            found += 1;
        }
    }
    assert!(found > 100);
}
