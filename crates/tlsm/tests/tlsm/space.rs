//! Space: both tiers full, and what leads out of that.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slmdb_engine::{
    CompactionOptions, CompactionPolicy, Compression, Engine, Event, Medium, Options, Stats, WriteBatch,
};
use slmdb_testkit::{MemoryEnv, Random};
use slmdb_tlsm::{Tiering, TlsmOptions};

fn options(env: &MemoryEnv) -> Options {
    let mut own = TlsmOptions::default();
    (own.level_base_bytes, own.level_growth, own.level_zero_runs) = (32 << 10, 4, 2);
    (own.segment_bytes, own.fast_tier_bytes) = (64 << 10, 1 << 20);
    let mut options = Options {
        env: Arc::new(env.clone()),
        memtable_bytes: 32 << 10,
        memory_budget_bytes: 1 << 16,
        compaction: CompactionOptions { table_file_bytes: 32 << 10, ..CompactionOptions::default() },
        own: Some(Arc::new(own)),
        medium: Some(Medium::Emulated { path: "/pool".into() }),
        pool_initial_bytes: 8 << 20,
        pool_growth_bytes: 1 << 16,
        pool_maximum_bytes: 1 << 30,
        ..Options::default()
    };
    if std::env::var_os("TELL").is_some() {
        let at = std::time::Instant::now();
        options.event_listener =
            slmdb_engine::Listener(Some(Arc::new(move |event: &Event| eprintln!("{:?} {event:?}", at.elapsed()))));
    }
    options
}

#[test]
fn overwrites_go_on_where_pool_and_files_share_a_full_disk() {
    let env = MemoryEnv::new();
    env.set_capacity((3 << 19) + (8 << 20));
    let engine: Arc<dyn Engine> = (slmdb_tlsm::KIND.open)(&options(&env), Path::new("/db"), None).unwrap();
    let (mut model, mut random) = (BTreeMap::new(), Random(2));
    for write in 0..12_000_u32 {
        let key = (random.below(2500) as u32).wrapping_mul(0x9e37_79b9).to_be_bytes();
        let mut value = vec![0; 400];
        random.fill(&mut value);
        let mut batch = WriteBatch::new();
        batch.put(key, &value).unwrap();
        engine.write(&batch, false).unwrap_or_else(|error| panic!("write {write}: {error}"));
        model.insert(key, value);
    }
    for (key, value) in &model {
        assert_eq!(engine.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    engine.close().unwrap();
}

fn put(engine: &dyn Engine, key: &[u8], value: &[u8]) -> slmdb_env::Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key, value).unwrap();
    engine.write(&batch, false)
}

/// Puts, and then deletes from the first key on, until even these are refused. Returns how many of each were taken.
fn fill_pool(engine: &dyn Engine) -> (u32, u32) {
    let delete = |number: u32| {
        let mut batch = WriteBatch::new();
        batch.delete(number.to_be_bytes()).unwrap();
        engine.write(&batch, false)
    };
    let puts = (0_u32..).find(|number| put(engine, &number.to_be_bytes(), &[7; 3000]).is_err()).unwrap();
    (puts, (0_u32..).find(|number| delete(*number).is_err()).unwrap())
}

/// Nothing leaves the pool, and nothing is compacted.
fn keeps_all(env: &MemoryEnv, segment_bytes: u64, pool_maximum_bytes: u64) -> Options {
    let own = TlsmOptions { tiering: Tiering::None, segment_bytes, ..TlsmOptions::default() };
    let mut options = Options {
        memtable_bytes: 4 << 10,
        own: Some(Arc::new(own)),
        pool_initial_bytes: 2 << 20,
        pool_maximum_bytes,
        ..options(env)
    };
    options.compaction.policy = CompactionPolicy::Manual;
    options
}

/// (A segment that is being filled took all that was set aside for a small MemTable, and its list found nothing.)
#[test]
fn what_was_accepted_is_flushed_in_a_full_pool() {
    let mut opened = 0;
    for segment_bytes in [64 << 10, 256 << 10, 1 << 20] {
        for pool_bytes in [2 << 20, 4 << 20] {
            let env = MemoryEnv::new();
            let options = keeps_all(&env, segment_bytes, pool_bytes);
            // (Too small for segments of that length.)
            let Ok(engine) = (slmdb_tlsm::KIND.open)(&options, Path::new("/db"), None) else { continue };
            opened += 1;
            fill_pool(&*engine);
            engine.flush().unwrap_or_else(|error| panic!("segments of {segment_bytes}, {pool_bytes}: {error}"));
            engine.close().unwrap();
        }
    }
    assert!(opened >= 4, "{opened} of 6 pools were opened");
}

/// (It divided by the number of MemTables, which was 0.)
#[test]
fn a_full_pool_opens_without_a_memtable() {
    let env = MemoryEnv::new();
    let mut options = keeps_all(&env, 256 << 10, 4 << 20);
    let engine = (slmdb_tlsm::KIND.open)(&options, Path::new("/db"), None).unwrap();
    let (puts, deletes) = fill_pool(&*engine);
    engine.flush().unwrap();
    engine.close().unwrap();
    drop(engine);
    // What is kept back for deletes is more now than is free, and the pool can't grow.
    options.memtable_bytes = 2 << 20;
    let engine = (slmdb_tlsm::KIND.open)(&options, Path::new("/db"), None).unwrap();
    for number in 0..puts.max(deletes) {
        let is_there = (deletes..puts).contains(&number);
        assert_eq!(
            engine.get(&number.to_be_bytes()).unwrap().is_some(),
            is_there,
            "{number} of {puts}, less {deletes}"
        );
    }
    engine.close().unwrap();
}

/// (All of level 0 was merged in vain once for each of its runs.)
#[test]
fn what_finds_no_space_in_the_pool_is_not_tried_for_each_run() {
    let env = MemoryEnv::new();
    let given_up = Arc::new(Mutex::new(HashMap::<Vec<u32>, u32>::new()));
    let seen = given_up.clone();
    let mut options = keeps_all(&env, 64 << 10, 4 << 20);
    options.memtable_bytes = 256 << 10;
    options.event_listener = slmdb_engine::Listener(Some(Arc::new(move |event: &Event| {
        if let Event::CompactionGivenUp { inputs, .. } = event {
            *seen.lock().unwrap().entry(inputs.clone()).or_default() += 1;
        }
    })));
    let engine = (slmdb_tlsm::KIND.open)(&options, Path::new("/db"), None).unwrap();
    // Small ones, so that a list takes more than its keys and values.
    let mut random = Random(3);
    while put(&*engine, &random.below(1 << 20).to_be_bytes(), b"").is_ok() {}
    engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
    engine.close().unwrap();
    let most = given_up.lock().unwrap().iter().map(|(inputs, times)| (*times, inputs.len())).max();
    assert!(most.is_some_and(|(times, _)| times < 10), "the same inputs in vain: {most:?}");
}

#[test]
fn lists_that_leave_the_pool_are_counted() {
    for (tiering, leave) in [(Tiering::None, false), (Tiering::Upper, true), (Tiering::Lru, true)] {
        let env = MemoryEnv::new();
        let mut options = options(&env);
        let own = TlsmOptions { tiering, ..options.own() };
        options.own = Some(Arc::new(own));
        options.compression = Compression::None;
        let engine = (slmdb_tlsm::KIND.open)(&options, Path::new("/db"), None).unwrap();
        for number in 0..8000_u32 {
            put(&*engine, &number.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[7; 400]).unwrap();
        }
        engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
        let stats = engine.stats();
        let (bytes, in_pool) = stats
            .levels_with_runs()
            .fold((0, 0), |(bytes, in_pool), (_, level)| (bytes + level.bytes, in_pool + level.bytes_in_pool));
        assert!(bytes > 3_200_000, "{stats:#?}");
        assert_eq!((stats.demotions > 0, in_pool < bytes), (leave, leave), "{tiering:?}: {stats:#?}");
    }
}

/// Options with lists of several units.
fn with_long_lists(env: &MemoryEnv, own: TlsmOptions) -> Options {
    let mut options = options(env);
    let of_these: TlsmOptions = options.own();
    let (segment_bytes, level_growth) = (of_these.segment_bytes, of_these.level_growth);
    options.own = Some(Arc::new(TlsmOptions { segment_bytes, level_growth, ..own }));
    (options.memtable_bytes, options.compaction.table_file_bytes) = (128 << 10, 256 << 10);
    options.compression = Compression::None;
    options
}

/// With level 1 of 256 KiB, and not much on level 0.
fn small_levels(tiering: Tiering, fast_tier_bytes: u64) -> TlsmOptions {
    TlsmOptions { tiering, fast_tier_bytes, level_base_bytes: 256 << 10, level_zero_runs: 2, ..TlsmOptions::default() }
}

/// The statistics of a store at rest in which 20,000 keys were put and then overwritten twice, at random.
fn after_overwrites(options: &Options) -> Stats {
    let engine = (slmdb_tlsm::KIND.open)(options, Path::new("/db"), None).unwrap();
    let (mut random, keys) = (Random(3), 20_000);
    for write in 0..3 * keys {
        let key = if write < keys { write } else { random.below(keys) };
        put(&*engine, &key.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[7; 400]).unwrap();
    }
    engine.flush().unwrap();
    let stats = at_rest(&*engine);
    engine.close().unwrap();
    stats
}

fn bytes_in_pool(stats: &Stats) -> u64 {
    stats.levels.iter().map(|level| level.bytes_in_pool).sum()
}

/// (Outputs became files whenever most of their inputs were, and the fast tier stayed nearly empty.) When writers have been far ahead of
/// compactions more has just left the pool than need be: some 30 % is left then, in one run of five.
#[test]
fn a_fast_tier_that_is_smaller_than_the_data_is_used() {
    let fast_tier_bytes = 4 << 20;
    for tiering in [Tiering::Upper, Tiering::Lru] {
        let mut levels = Vec::new();
        let is_used = (0..4).any(|_| {
            let stats = after_overwrites(&with_long_lists(&MemoryEnv::new(), small_levels(tiering, fast_tier_bytes)));
            let is_used = bytes_in_pool(&stats) > fast_tier_bytes * 2 / 5;
            levels.push(stats.levels);
            is_used
        });
        assert!(is_used, "{tiering:?}: {levels:?}");
    }
}

/// The statistics of a store when it has compacted nothing for a while.
fn at_rest(engine: &dyn Engine) -> Stats {
    let mut compactions = u64::MAX;
    loop {
        let stats = engine.stats();
        if stats.since_open.compactions == compactions {
            return stats;
        }
        compactions = stats.since_open.compactions;
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// What segments take and what lists name of it, in bytes, when nothing is left to be done after five overwrites of all keys.
fn segments_after_overwrites(segment_live_min: f64) -> (u64, u64) {
    let env = MemoryEnv::new();
    let own = TlsmOptions {
        tiering: Tiering::None,
        segment_bytes: 64 << 10,
        segment_live_min,
        level_base_bytes: 256 << 10,
        level_growth: 4,
        level_zero_runs: 2,
        ..TlsmOptions::default()
    };
    let options = Options { memtable_bytes: 128 << 10, own: Some(Arc::new(own)), ..options(&env) };
    let engine = (slmdb_tlsm::KIND.open)(&options, Path::new("/db"), None).unwrap();
    let mut random = Random(5);
    let keys = 4000;
    for write in 0..6 * keys {
        let key = if write < keys { write } else { random.below(keys) };
        let mut value = vec![0; 500];
        random.fill(&mut value);
        put(&*engine, &key.to_be_bytes(), &value).unwrap();
    }
    engine.flush().unwrap();
    let stats = at_rest(&*engine);
    let taken_bytes = stats.fast_tier_key_segment_bytes;
    let named_bytes = stats.levels.iter().map(|level| level.bytes_in_pool).sum();
    engine.close().unwrap();
    (taken_bytes, named_bytes)
}

#[test]
fn segments_take_little_more_than_lists_name() {
    let (taken_bytes, named_bytes) = segments_after_overwrites(0.5);
    let (paper_taken_bytes, paper_named_bytes) = segments_after_overwrites(0.0);
    println!("{taken_bytes} for {named_bytes}; by the paper {paper_taken_bytes} for {paper_named_bytes}");
    // (Eight segments more are none too many: a small store has no others.)
    assert!(taken_bytes as f64 <= 1.5 * named_bytes as f64 + (8 << 16) as f64, "{taken_bytes} for {named_bytes}");
    assert!(paper_taken_bytes > 2 * paper_named_bytes, "{paper_taken_bytes} for {paper_named_bytes} without cleaning");
}

/// Nothing may leave the pool. Each segment has entries of many lists, and most of each is deleted. (No list gave a segment back by
/// itself, and deletes were refused for ever.)
#[test]
fn what_is_deleted_in_a_full_pool_comes_back() {
    deletes_in_a_full_pool(0.5, 2000);
}

/// (With entries longer than half of a segment each one that was filled anew was sparse, too.)
#[test]
fn emptying_segments_ends_wherever_they_begin_to_be_sparse() {
    deletes_in_a_full_pool(1.0, 50_000);
}

fn deletes_in_a_full_pool(segment_live_min: f64, value_bytes_max: u64) {
    let env = MemoryEnv::new();
    let own = TlsmOptions { tiering: Tiering::None, segment_live_min, ..TlsmOptions::default() };
    let options = Options {
        memtable_bytes: 128 << 10,
        own: Some(Arc::new(TlsmOptions { segment_bytes: 64 << 10, ..own })),
        pool_initial_bytes: 12 << 20,
        pool_maximum_bytes: 12 << 20,
        ..options(&env)
    };
    let engine = (slmdb_tlsm::KIND.open)(&options, Path::new("/db"), None).unwrap();
    let (mut model, mut random) = (BTreeMap::new(), Random(7));
    let mut fill = |model: &mut BTreeMap<[u8; 8], Vec<u8>>| {
        let mut taken_bytes = 0;
        loop {
            let (key, mut value) =
                (random.number().to_be_bytes(), vec![0_u8; 200 + random.below(value_bytes_max) as usize]);
            random.fill(&mut value);
            if put(&*engine, &key, &value).is_err() {
                return taken_bytes;
            }
            taken_bytes += value.len();
            model.insert(key, value);
        }
    };
    let filled_bytes = fill(&mut model);
    // In no order, as the keys came in none.
    let mut keys: Vec<_> = model.keys().copied().collect();
    keys.sort_unstable_by_key(|key| u64::from_be_bytes(*key).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for key in &keys[..keys.len() / 4 * 3] {
        let mut batch = WriteBatch::new();
        batch.delete(key).unwrap();
        // A delete that has waited for a flush long enough is refused, and taken the next time.
        let is_taken = (0..100).any(|_| engine.write(&batch, false).is_ok());
        assert!(is_taken, "a delete is refused for ever: {} of {} are left", model.len(), keys.len());
        model.remove(key);
    }
    engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
    let again_bytes = fill(&mut model);
    assert!(again_bytes > filled_bytes / 3, "{filled_bytes} bytes, three of four deleted, then {again_bytes} more");
    for (key, value) in &model {
        assert_eq!(engine.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    engine.close().unwrap();
}

/// With a pool that ends at 6 MiB.
fn with_a_short_pool(tiering: Tiering, fast_tier_bytes: u64) -> Options {
    let options = with_long_lists(&MemoryEnv::new(), small_levels(tiering, fast_tier_bytes));
    Options { pool_initial_bytes: 4 << 20, pool_maximum_bytes: 6 << 20, ..options }
}

/// (A bound near the largest number ended the store: an eighth was added to it.)
#[test]
fn a_pool_that_is_smaller_than_lists_may_take_is_used() {
    let options = with_a_short_pool(Tiering::Upper, u64::MAX);
    let stats = after_overwrites(&options);
    assert!(bytes_in_pool(&stats) > options.pool_maximum_bytes / 4, "{:?}", stats.levels);
}

/// (They paused 25 times as often: compactions rested, as they had found no space in the pool, and level 0 stayed too full.) A pause
/// lasts a step of this machine's clock.
#[test]
fn writers_do_not_wait_for_compactions_that_find_no_space() {
    let stalls = after_overwrites(&with_a_short_pool(Tiering::Lru, 1 << 30)).stalls;
    assert!(stalls.compaction_us < 8_000, "{stalls:?}");
}

/// (A merge that found no space in the pool was tried as lists for ever, though files had space, and level 0 grew to 17 runs.)
#[test]
fn what_is_too_much_for_the_pool_goes_to_files() {
    let own = TlsmOptions {
        fast_tier_bytes: 1 << 30,
        level_base_bytes: 2 << 20,
        level_zero_runs: 4,
        run_bytes: 1 << 20,
        ..TlsmOptions::default()
    };
    let mut options = with_long_lists(&MemoryEnv::new(), own);
    options.compaction.table_file_bytes = 1 << 20;
    (options.pool_initial_bytes, options.pool_maximum_bytes) = (3 << 20, 4 << 20);
    let stats = after_overwrites(&options);
    assert!(stats.levels[0].runs < 8, "{:?}", stats.levels);
}
