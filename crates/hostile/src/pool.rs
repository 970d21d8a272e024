//! Pools: opened, every extent and block looked at, space taken and given back, sealed, and opened again.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use slmdb_env::{Env, Error, ErrorKind, Result};
use slmdb_pmem::{Blocks, Emulated, Extent, ExtentKind, Pool, PoolOptions, UNIT_BYTES};
use slmdb_testkit::MemoryEnv;

use crate::memory::within;
use crate::mend;
use crate::mode::{Mode, expected};

const PATH: &str = "/pool";

struct Sound {
    bytes: Vec<u8>,
    /// With the words in each.
    extents: Vec<(Extent, Vec<u64>)>,
}

fn options() -> PoolOptions {
    PoolOptions { initial_bytes: 0, growth_bytes: UNIT_BYTES, maximum_bytes: 4 << 20, uuid: *b"a hostile store!" }
}

/// A pool that was closed clean, and the same left open.
fn sounds() -> &'static [Sound] {
    static SOUNDS: OnceLock<Vec<Sound>> = OnceLock::new();
    SOUNDS.get_or_init(|| [true, false].map(|clean| sound(clean).expect("a sound pool")).into())
}

fn sound(clean: bool) -> Result<Sound> {
    let env = MemoryEnv::new();
    let pool = Arc::new(Pool::create(&env, Path::new(PATH), Emulated::new(), &options())?);
    let mut extents = Vec::new();
    for (owner, kind) in [(1, ExtentKind::Arena), (2, ExtentKind::KeySegment), (3, ExtentKind::KeySegment)] {
        let extent = pool.allocate_extent(kind, 1, owner)?;
        for (index, at) in (extent.offset..extent.offset + 1024).step_by(8).enumerate() {
            pool.store(at, extent.offset ^ (index as u64 * 0x9e37))?;
        }
        extents.push(extent);
    }
    pool.free_extent(extents.remove(1).offset)?;
    let blocks = Blocks::open(Arc::clone(&pool))?;
    for size_bytes in [64, 256, 256, 512] {
        let block = blocks.take(size_bytes)?;
        blocks.mark_used(block)?;
    }
    drop(blocks);
    let extents = extents.into_iter().map(|extent| Ok((extent, words(&pool, &extent)?))).collect::<Result<_>>()?;
    if clean {
        pool.seal()?;
    }
    drop(pool);
    Ok(Sound { bytes: env.content(PATH).unwrap_or_default(), extents })
}

/// What the first words of an extent are.
fn words(pool: &Pool<Emulated>, extent: &Extent) -> Result<Vec<u64>> {
    (extent.offset..extent.offset + 1024).step_by(8).map(|at| pool.load(at)).collect()
}

pub fn run(input: &[u8]) {
    let Some((mode, rest)) = Mode::split(input) else { return };
    let number = mode.sound(sounds().len());
    let sound = &sounds()[number];
    let mut bytes = mode.file(rest, &sound.bytes);
    mode.mend(&mut bytes, &sound.bytes, mend::pool::mend);
    within(8 * bytes.len() + (8 << 20), || {
        let env = MemoryEnv::new();
        env.set_content(PATH, &bytes);
        let pool = match Pool::open(&env, Path::new(PATH), Emulated::new(), &options(), mode.has_option()) {
            Ok(pool) => Arc::new(pool),
            Err(error) => {
                assert!(!mode.is_strict() || bytes != sound.bytes, "a sound pool is refused: {error}");
                return refused(&error, mode);
            }
        };
        assert_eq!(pool.verify().len(), 0, "a pool that opens has a map that is sound");
        let extents = pool.extents();
        assert!(extents.windows(2).all(|pair| pair[0].end() <= pair[1].offset), "extents overlap");
        assert!(extents.iter().all(|extent| extent.end() <= pool.length_bytes()), "an extent beyond the end");
        for extent in &extents {
            assert_eq!(pool.extent_at(extent.offset), Some(*extent));
            assert_eq!(pool.kind_at(extent.end() - 1), Some(extent.kind));
        }
        // The seals of a pool closed clean cover everything.
        if mode.is_strict() && number == 0 {
            for (extent, written) in &sound.extents {
                assert_eq!(pool.extent_at(extent.offset), Some(*extent), "an extent is lost, and no error");
                assert_eq!(&words(&pool, extent).expect("within the pool"), written, "wrong words, and no error");
            }
        }
        if !mode.has_option() {
            use_it(&env, pool);
        }
    });
}

/// A damaged header may make it that of another boot, and a forged one another store's.
fn refused(error: &Error, mode: Mode) {
    let text = error.to_string();
    let is_foreign = text.contains("slmdb repair") || (!mode.is_strict() && text.contains("pool of another store"));
    if error.kind() != ErrorKind::Invalid || !is_foreign {
        expected(error);
    }
}

fn use_it(env: &dyn Env, pool: Arc<Pool<Emulated>>) {
    let full = |error: &Error| assert!(matches!(error.kind(), ErrorKind::Full | ErrorKind::Corruption), "{error}");
    match Blocks::open(Arc::clone(&pool)) {
        Ok(blocks) => {
            for block in blocks.used().into_iter().take(64) {
                assert!(blocks.is_used(block).is_ok_and(|used| used), "a used block that is not used");
                assert!(blocks.block_size(block).is_ok());
            }
            for size_bytes in [64, 256, 4096] {
                let marked = blocks.take(size_bytes).and_then(|block| {
                    assert!(!blocks.is_used(block)?, "a block was given out twice");
                    blocks.mark_used(block)?;
                    assert!(blocks.is_used(block)?);
                    blocks.mark_free(block)
                });
                marked.unwrap_or_else(|error| full(&error));
            }
        }
        Err(error) => expected(&error),
    }
    match pool.allocate_extent(ExtentKind::Arena, 2 * UNIT_BYTES, 9) {
        Ok(new) => {
            let others = pool.extents().into_iter().filter(|extent| *extent != new);
            assert!(others.clone().all(|other| other.end() <= new.offset || new.end() <= other.offset), "given twice");
            pool.free_extent(new.offset).expect("an extent that was just given out");
        }
        Err(error) => full(&error),
    }
    let extents = pool.extents();
    pool.seal().expect("a pool whose map is sound is sealed");
    drop(pool);
    let again = Pool::open(env, Path::new(PATH), Emulated::new(), &options(), true).expect("a sealed pool opens");
    assert!(again.was_clean() && again.extents() == extents);
}
