//! How fast table files are built and read on this machine: `cargo run --release --example table_speed -p slmdb-table`.
//!
//! One thread, files in memory or in the page cache, so that what is measured is the work of the processor. Values are
//! half compressible: every second 16 bytes are noise.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use slmdb_env::memory::MemoryEnv;
use slmdb_env::{Env, OsEnv};
use slmdb_table::{Compression, EntryKind, FinishedTable, KeySection, Place, TableBuilder, TableOptions, TableReader};

const UUID: [u8; 16] = *b"0123456789abcdef";
const RAW_BYTES: usize = 64 << 20;
const ROUNDS: usize = 5;
const GET_REPEATS: usize = 100;

/// The best of several rounds, in seconds: what the machine can do when nothing else disturbs it.
fn best_s(mut round: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

fn key(number: usize) -> Vec<u8> {
    format!("user{number:016}").into_bytes()
}

/// What values are cut from, each at another place.
fn half_compressible(length: usize) -> Vec<u8> {
    let mut bytes = vec![b'v'; length];
    let mut noise = vec![0; length];
    MemoryEnv::new().random_bytes(&mut noise);
    for (some, noise) in bytes.chunks_mut(16).zip(noise.chunks(16)).step_by(2) {
        some.copy_from_slice(noise);
    }
    bytes
}

fn build(
    path: &Path,
    count: usize,
    pool: &[u8],
    value_bytes: usize,
    compression: Compression,
) -> slmdb_env::Result<FinishedTable> {
    let options = TableOptions { compression, ..TableOptions::default() };
    let mut builder = TableBuilder::new(&OsEnv::new(), path, 1, UUID, options)?;
    let mut key = key(0);
    for number in 0..count {
        // Sequence numbers as a MemTable filled at random has them.
        let sequence = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let mut digits = number;
        for digit in key[4..].iter_mut().rev() {
            *digit = b'0' + (digits % 10) as u8;
            digits /= 10;
        }
        let start = (number * value_bytes) % (pool.len() - value_bytes);
        builder.add(&key, sequence, EntryKind::Put, &pool[start..start + value_bytes])?;
    }
    builder.finish()
}

fn places(keys: &KeySection) -> slmdb_env::Result<Vec<(Vec<u8>, Place)>> {
    keys.entries().map(|entry| entry.map(|entry| (entry.key.to_vec(), entry.place))).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("1.table");
    let pool = half_compressible(RAW_BYTES / 4);
    println!(
        "value B  stored  file/raw  build MB/s  decode keys/s  load+decode keys/s  get ns  read_block ns  scan MB/s  verify MB/s"
    );
    for value_bytes in [16, 128, 1024, 4096, 65_536] {
        let count = RAW_BYTES / (20 + value_bytes);
        for compression in [Compression::None, Compression::Lz4] {
            let raw_bytes = (count * (20 + value_bytes)) as f64;
            let mut finished = None;
            let build_s = best_s(|| {
                let _ = std::fs::remove_file(&path);
                finished = build(&path, count, &pool, value_bytes, compression).ok();
            });
            let finished = finished.ok_or("could not build")?;
            let table = TableReader::open(&OsEnv::new(), &path, 1, UUID)?;
            let decode_s = best_s(|| {
                let decoded = finished.keys.entries().filter(|entry| black_box(entry).is_ok()).count();
                assert_eq!(decoded, count);
            });
            let load_s = best_s(|| {
                let loaded = table.key_section().map(|keys| keys.entries().filter(|e| black_box(e).is_ok()).count());
                assert_eq!(loaded.ok(), Some(count));
            });
            let keys = places(&finished.keys)?;
            let step = (count / 1000).max(1);
            let sample: Vec<_> = keys.iter().step_by(step).collect();
            let blocks: Vec<_> = sample.iter().map(|(_, place)| table.read_block(*place)).collect::<Result<_, _>>()?;
            let get_s = best_s(|| {
                for _ in 0..GET_REPEATS {
                    for ((key, _), block) in sample.iter().zip(&blocks) {
                        assert!(black_box(block.get(black_box(key))).is_ok_and(|found| found.is_some()));
                    }
                }
            });
            let read_s = best_s(|| {
                for (_, place) in &sample {
                    assert!(black_box(table.read_block(*place)).is_ok());
                }
            });
            let mut all_places: Vec<_> = keys.iter().map(|(_, place)| *place).collect();
            all_places.dedup();
            let scan_s = best_s(|| {
                let mut blocks = table.sequential(1 << 20);
                for &place in &all_places {
                    let Ok(block) = blocks.read_block(place) else { continue };
                    let mut cursor = block.cursor();
                    let mut moved = cursor.seek_first();
                    while moved.is_ok() && cursor.valid() {
                        black_box((cursor.key(), cursor.value()));
                        moved = cursor.next();
                    }
                }
            });
            let verify_s = best_s(|| assert!(table.verify(&mut |_| {}).is_empty()));
            println!(
                "{value_bytes:7}  {:6}  {:8.3}  {:10.0}  {:12.1}M  {:17.1}M  {:6.0}  {:13.0}  {:9.0}  {:11.0}",
                format!("{compression:?}"),
                finished.length_bytes as f64 / raw_bytes,
                raw_bytes / build_s / 1e6,
                count as f64 / decode_s / 1e6,
                count as f64 / load_s / 1e6,
                get_s / GET_REPEATS as f64 / sample.len() as f64 * 1e9,
                read_s / sample.len() as f64 * 1e9,
                raw_bytes / scan_s / 1e6,
                raw_bytes / verify_s / 1e6,
            );
        }
    }
    Ok(())
}
