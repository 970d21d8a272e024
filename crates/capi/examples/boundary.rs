//! What a get costs through each C interface beside the Rust one: `cargo run --release -p slmdb-capi --example boundary`.
//!
//! Rounds of gets of one store take turns among the ways, so that what else the machine does meets all alike. The figures are medians over the rounds, of the processor's time of this thread. A get through C is with the copy of the
//! value that the caller keeps, and its `free`.

use std::ffi::c_char;
use std::hint::black_box;
use std::path::Path;
use std::ptr::{null, null_mut};

use slmdb::{Db, WriteBatch};
use slmdb_capi::leveldb;
use slmdb_capi::native;

const KEYS: u32 = 100_000;
const GETS: u32 = 50_000;
const ROUNDS: usize = 31;

/// Time that the processor has spent on this thread, in nanoseconds.
fn processor_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` may be written to.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(code, 0, "the clock of this thread can't be read");
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Nanoseconds for each get of a round. All rounds of one number get the same keys.
fn round(seed: u32, mut get: impl FnMut(&[u8; 16]) -> usize) -> f64 {
    let mut state = seed.wrapping_mul(2_654_435_769) | 1;
    let mut found_bytes = 0;
    let begun_ns = processor_ns();
    for _ in 0..GETS {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        found_bytes += get(&key(state % KEYS));
    }
    let took_ns = processor_ns() - begun_ns;
    assert!(found_bytes > 0);
    took_ns as f64 / f64::from(GETS)
}

fn key(number: u32) -> [u8; 16] {
    let mut key = *b"0000000000000000";
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn filled(directory: &Path, value_bytes: usize, in_table_files: bool) -> slmdb::Result<Db> {
    let db = Db::open(directory)?;
    let value = vec![7; value_bytes];
    for chunk in 0..KEYS / 1000 {
        let mut batch = WriteBatch::new();
        (chunk * 1000..(chunk + 1) * 1000).try_for_each(|number| batch.put(key(number), &value))?;
        db.write(&batch)?;
    }
    if in_table_files {
        db.compact_range::<&[u8]>(..)?;
    }
    Ok(db)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn measure(value_bytes: usize, in_table_files: bool) -> slmdb::Result<()> {
    let place = tempfile::tempdir().map_err(|error| slmdb::Error::io("create", "a temporary directory", error))?;
    let rust = filled(&place.path().join("db"), value_bytes, in_table_files)?;
    let mut leveldb_store = leveldb::db::leveldb_t { db: rust.clone() };
    let slmdb_store = native::store::slmdb_t::from(rust.clone());
    let by_rust = |key: &[u8; 16]| rust.get(key).ok().flatten().map_or(0, |value| black_box(value).len());
    let by_rust_copying =
        |key: &[u8; 16]| rust.get(key).ok().flatten().map_or(0, |value| black_box(value.to_vec()).len());
    let mut by_leveldb = |key: &[u8; 16]| {
        let (mut length, mut error): (usize, *mut c_char) = (0, null_mut());
        // SAFETY: the header's rules; the value is freed once.
        unsafe {
            let start = key.as_ptr().cast();
            let value = leveldb::db::leveldb_get(&mut leveldb_store, null(), start, key.len(), &mut length, &mut error);
            leveldb::utility::leveldb_free(black_box(value).cast());
        }
        length
    };
    let by_slmdb = |key: &[u8; 16]| {
        let (mut value, mut length, mut message): (*mut c_char, usize, *mut c_char) = (null_mut(), 0, null_mut());
        // SAFETY: the header's rules; the value is freed once.
        unsafe {
            let start = key.as_ptr().cast();
            native::reads::slmdb_get(&slmdb_store, start, key.len(), &mut value, &mut length, &mut message);
            native::codes::slmdb_free(black_box(value).cast());
        }
        length
    };

    let (mut alone, mut more) = (Vec::new(), [const { Vec::new() }; 3]);
    for number in 0..=ROUNDS {
        let seed = number as u32 + 1;
        let alone_ns = round(seed, by_rust);
        let ns = [round(seed, by_rust_copying), round(seed, &mut by_leveldb), round(seed, by_slmdb)];
        // The first fills the caches.
        if number > 0 {
            alone.push(alone_ns);
            more.iter_mut().zip(ns).for_each(|(more, ns)| more.push(ns - alone_ns));
        }
    }
    let place = if in_table_files { "table files" } else { "MemTable" };
    let (alone, [copying, by_leveldb, by_slmdb]) = (median(alone), more.map(median));
    println!("| {place} | {value_bytes} | {alone:.0} | {copying:+.0} | {by_leveldb:+.0} | {by_slmdb:+.0} |");
    drop((leveldb_store, slmdb_store));
    rust.close()
}

fn main() -> slmdb::Result<()> {
    println!("Nanoseconds of the processor for a get, and how many more:\n");
    println!("| entries are in | bytes of a value | Rust | Rust, copying the value | leveldb_get | slmdb_get |");
    println!("|---|--:|--:|--:|--:|--:|");
    for in_table_files in [false, true] {
        for value_bytes in [100, 1000] {
            measure(value_bytes, in_table_files)?;
        }
    }
    Ok(())
}
