//! [`Arenas`]: where MemTables' arenas come from and go to.
//!
//! On persistent media an arena is an extent of the pool, owned by its generation. On `Dram` it is a mapped file of the
//! store's directory: it survives a kill as the page cache does, and a power cut once it was synced. It is mapped, not
//! written with system calls, because that measured faster: 33 ns against 578 ns for a 1 KiB record into recycled
//! space, and 97 µs against 158 µs with a sync behind each (`docs/guide/durability.md`).
//!
//! Cursors may still read a retired arena. When its MemTable has no other owner left, the arena is kept to be recycled
//! for the next generation; a few are, the others are given back (INV-10). A recycled arena is full of old records.
//! They can't come back, because every checksum covers the generation (INV-3).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_env::{Env, Error, File, OpenMode, Result};
use slmdb_pmem::{AnyMedium, Arena, ArenaKind, ArenaPast, Extent, ExtentKind, Medium, Pool, UNIT_BYTES};
use slmdb_structures::log::{ARENA_HEADER_BYTES, Log, arena_bytes_in_header};
use slmdb_structures::memtable::MemTable;
use slmdb_sync::scheduled::atomic::{AtomicU64, AtomicUsize};
use slmdb_sync::scheduled::{Instant, Mutex, MutexGuard};

use crate::files::file_names as names;
use crate::lock_order;

/// How many retired arenas are kept for recycling. In a full pool, or on a full disk, writes (deletes, then) go on in
/// them. Where the disk has plenty, a store at rest gives them back.
const RECYCLED_MAX: usize = 2;

/// Longer than any arena: MemTables and single records are limited to about half of it.
const LARGEST_ARENA_BYTES: u64 = 2 << 30;
/// How many zeros a loaded arena has behind what its file has, if it is longer: more than a header of either kind takes.
const ZEROS_BEHIND_BYTES: u64 = 4096;

/// Read size when an arena is loaded: small enough for a processor's cache.
const READ_BYTES: usize = 256 << 10;

/// How long a writer that needs the space of a retired arena waits for its readers. Most hold a list of MemTables for
/// microseconds, but their threads may lose the processor. A cursor may hold one for hours.
const READERS_PATIENCE: Duration = Duration::from_millis(250);

/// Write size when a recovered arena is written anew.
const REWRITE_BYTES: usize = 1 << 20;

/// The arenas of a store.
pub struct Arenas {
    home: Home,
    /// The usual length of an arena; files of another length are not kept.
    usual_bytes: u64,
    retired: Mutex<Retired>,
    /// How many threads are giving arenas back now.
    discarding: AtomicUsize,
    /// How often arenas were given back.
    returned: AtomicU64,
}

enum Home {
    Pool(Arc<Pool<AnyMedium>>),
    Directory { env: Arc<dyn Env>, directory: PathBuf, medium: AnyMedium },
}

impl Home {
    /// The length of an arena for this size, rounded up to whole units.
    fn length_bytes(&self, wanted_bytes: u64) -> u64 {
        match self {
            Home::Pool(_) => wanted_bytes.next_multiple_of(UNIT_BYTES),
            Home::Directory { .. } => wanted_bytes,
        }
    }
}

struct Retired {
    /// Retired MemTables that may still be read, and since when.
    memtables: Vec<(Arc<MemTable<AnyMedium>>, Instant)>,
    /// Unused arenas, kept for recycling.
    arenas: Vec<Unused>,
}

/// An arena without a reader.
struct Unused {
    /// Its last generation.
    generation: u64,
    length_bytes: u64,
    past: ArenaPast,
}

impl Arenas {
    /// Arenas in the pool if the medium is persistent, else in the directory. Most will be `usual_bytes` long.
    pub fn new(pool: &Arc<Pool<AnyMedium>>, env: Arc<dyn Env>, directory: &Path, usual_bytes: u64) -> Arenas {
        let home = if pool.medium().is_persistent() {
            Home::Pool(pool.clone())
        } else {
            Home::Directory { env, directory: directory.to_path_buf(), medium: pool.medium().clone() }
        };
        let usual_bytes = home.length_bytes(usual_bytes);
        Arenas {
            home,
            usual_bytes,
            retired: Mutex::ranked(lock_order::ARENAS, Retired { memtables: Vec::new(), arenas: Vec::new() }),
            discarding: AtomicUsize::new(0),
            returned: AtomicU64::new(0),
        }
    }

    /// Whether they are in the pool, because the medium is persistent.
    #[inline]
    pub fn are_in_pool(&self) -> bool {
        matches!(self.home, Home::Pool(_))
    }

    /// An arena for `generation`: a recycled one if there is one of this length, preferably of this kind. Its name or
    /// extent is durable on return; the MANIFEST makes it the store's. After an error that may be tried again nothing
    /// has changed.
    /// LOCKS: arenas
    pub fn make(&self, generation: u64, length_bytes: u64, kind: ArenaKind) -> Result<Arena<AnyMedium>> {
        self.reclaim(self.retired.lock())?;
        let recycled = {
            let length_bytes = self.home.length_bytes(length_bytes);
            let mut retired = self.retired.lock();
            let fits = |unused: &Unused| unused.length_bytes == length_bytes;
            let of_kind = retired.arenas.iter().position(|unused| fits(unused) && unused.past.kind == kind);
            let fitting = of_kind.or_else(|| retired.arenas.iter().position(fits));
            fitting.map(|index| retired.arenas.swap_remove(index))
        };
        match &self.home {
            Home::Pool(pool) => {
                let owner = owner(generation)?;
                let extent = match recycled.and_then(|old| self.extent(pool, old.generation)) {
                    Some(extent) => pool.set_extent_owner(extent.offset, owner)?,
                    None => pool.allocate_extent(ExtentKind::Arena, length_bytes, owner)?,
                };
                Ok(Arena::in_pool(pool.clone(), extent))
            }
            Home::Directory { env, directory, medium } => {
                let path = names::arena(directory, generation);
                let made = match &recycled {
                    Some(old) => {
                        env.rename(&names::arena(directory, old.generation), &path)?;
                        Arena::reuse_file(&**env, &path, medium.clone(), length_bytes)
                            .map(|arena| arena.of_kind(kind, Some(old.past)))
                    }
                    // What a failed attempt leaves would take space until the next opening.
                    None => Arena::create_file(&**env, &path, medium.clone(), length_bytes)
                        .inspect_err(|_| drop(env.remove_file(&path)))
                        .map(|arena| arena.of_kind(kind, None)),
                };
                let made = made.and_then(|arena| env.sync_directory(directory).map(|()| arena));
                if let (Err(error), Some(old)) = (&made, recycled)
                    && error.may_be_tried_again()
                {
                    env.rename(&path, &names::arena(directory, old.generation))?;
                    self.retired.lock().arenas.push(old);
                }
                made
            }
        }
    }

    /// The usual length of an arena, in bytes.
    pub fn usual_bytes(&self) -> u64 {
        self.usual_bytes
    }

    /// The arena of a generation, for recovery. On `Dram` its bytes are read into memory, so that a read error is an
    /// error and not a `SIGBUS`. A file that was cut, by a clean close or while it was made, counts as followed by
    /// zeros up to `length_bytes`; `None`: up to what its header tells. Only the first few KiB of these zeros are there.
    /// They end the log as well as all would, and a length that is told takes no memory.
    pub fn load(&self, generation: u64, length_bytes: Option<u64>) -> Result<Option<Arena<AnyMedium>>> {
        match &self.home {
            Home::Pool(pool) => Ok(self.extent(pool, generation).map(|extent| Arena::in_pool(pool.clone(), extent))),
            Home::Directory { env, directory, medium } => {
                let path = names::arena(directory, generation);
                if !env.exists(&path)? {
                    return Ok(None);
                }
                let file = env.open_file(&path, OpenMode::Read)?;
                let file_bytes = file.length_bytes()?;
                let length_bytes = match length_bytes {
                    Some(length_bytes) => length_bytes,
                    None => length_in_header(&*file)?
                        .filter(|&told| told <= LARGEST_ARENA_BYTES)
                        .unwrap_or(0)
                        .max(file_bytes),
                };
                if length_bytes > LARGEST_ARENA_BYTES {
                    return Err(Error::corruption(path, 0, format!("no arena has {length_bytes} bytes")));
                }
                let read_bytes = file_bytes.min(length_bytes);
                let mut bytes = vec![0; length_bytes.min(read_bytes + ZEROS_BEHIND_BYTES) as usize];
                read_sparse(&*file, &mut bytes[..read_bytes as usize])?;
                Ok(Some(Arena::from_bytes(medium.clone(), &path, bytes).with_zeros_behind(read_bytes, length_bytes)))
            }
        }
    }

    /// Makes what was replayed of an arena durable; on persistent media it is. The arena is written anew first. If an
    /// earlier opening ended because a sync failed, the system may count pages as written that are not, and a sync
    /// alone would believe it. The bytes written are those that were checked, not those of another reading.
    pub fn make_durable(&self, recovered: &Log<AnyMedium>) -> Result<()> {
        let Home::Directory { env, directory, .. } = &self.home else { return Ok(()) };
        let file = env.open_file(&names::arena(directory, recovered.generation()), OpenMode::ReadWrite)?;
        let length_bytes = file.length_bytes()?.min(recovered.used_bytes());
        let mut chunk = vec![0; REWRITE_BYTES];
        let mut offset = 0;
        while offset < length_bytes {
            let part = &mut chunk[..REWRITE_BYTES.min((length_bytes - offset) as usize)];
            copy_words(recovered.arena(), offset, part);
            file.write_at(part, offset)?;
            offset += part.len() as u64;
        }
        file.sync_data()
    }

    /// Reads what lies behind the end of a log once more, and compares it with the loaded arena. A record that a crash
    /// cut short reads the same every time; a misread one does not. [`Error::Corruption`]: the two readings differ.
    pub fn check_end(&self, generation: u64, arena: &Arena<AnyMedium>, end_offset: u64) -> Result<()> {
        let Home::Directory { env, directory, .. } = &self.home else { return Ok(()) };
        let file = env.open_file(&names::arena(directory, generation), OpenMode::Read)?;
        // No record lies behind the last whole word.
        let length_bytes = file.length_bytes()?.min(arena.length_bytes()) / 8 * 8;
        let (mut chunk, mut before) = (vec![0; REWRITE_BYTES], vec![0; REWRITE_BYTES]);
        let mut offset = end_offset;
        while offset < length_bytes {
            let part = REWRITE_BYTES.min((length_bytes - offset) as usize);
            file.read_exact_at(&mut chunk[..part], offset)?;
            copy_words(arena, offset, &mut before[..part]);
            if chunk[..part] != before[..part] {
                let what = "where the log ends, the arena was read twice, and not the same both times";
                return Err(Error::corruption(file.path(), offset, what));
            }
            offset += part as u64;
        }
        Ok(())
    }

    /// The generations of all arenas on the medium, whether the MANIFEST names them or not.
    pub fn present(&self) -> Result<Vec<u64>> {
        match &self.home {
            Home::Pool(pool) => {
                let extents = pool.extents();
                Ok(extents.iter().filter(|e| e.kind == ExtentKind::Arena).map(|e| u64::from(e.owner)).collect())
            }
            Home::Directory { env, directory, .. } => {
                let entries = env.list_directory(directory)?;
                let arena = |name: &str| match names::kind(name) {
                    names::FileKind::Arena(generation) => Some(generation),
                    _ => None,
                };
                Ok(entries.iter().filter_map(|entry| arena(&entry.name)).collect())
            }
        }
    }

    /// Removes an arena that the MANIFEST does not name.
    pub fn discard(&self, generation: u64) -> Result<()> {
        match &self.home {
            Home::Pool(pool) => self.extent(pool, generation).map_or(Ok(()), |extent| pool.free_extent(extent.offset)),
            Home::Directory { env, directory, .. } => env.remove_file(&names::arena(directory, generation)),
        }
    }

    /// Takes a MemTable that the MANIFEST has just given up. Its arena comes back when its last reader is gone
    /// (INV-10).
    /// LOCKS: arenas
    pub fn retire(&self, memtable: Arc<MemTable<AnyMedium>>) -> Result<()> {
        let mut retired = self.retired.lock();
        retired.memtables.push((memtable, Instant::now()));
        self.reclaim(retired).map(|_| ())
    }

    /// Reclaims arenas after a reader has gone, perhaps the last of some retired MemTables. Returns the bytes of the
    /// lists that are freed. If another thread holds the lock, a later reader or flush reclaims them.
    /// LOCKS: arenas (tried)
    pub fn reader_has_gone(&self) -> Result<u64> {
        match self.retired.try_lock() {
            Some(retired) => self.reclaim(retired),
            None => Ok(0),
        }
    }

    /// How often arenas were given back. A change is a reason to look for space again.
    pub fn returned(&self) -> u64 {
        self.returned.load(Ordering::SeqCst)
    }

    /// Gives back arenas without readers. Returns whether more will be given back soon, once the last readers have gone
    /// or another thread has given them back. They don't signal it.
    /// LOCKS: arenas
    pub fn await_readers(&self) -> Result<bool> {
        self.reader_has_gone()?;
        let is_recent = |(_, since): &(Arc<MemTable<AnyMedium>>, Instant)| since.elapsed() < READERS_PATIENCE;
        let is_held = self.retired.lock().memtables.iter().any(is_recent);
        Ok(is_held || self.discarding.load(Ordering::SeqCst) > 0)
    }

    /// Visits the retired MemTables that may still be read.
    /// LOCKS: arenas
    pub fn for_each_retired(&self, look: &mut impl FnMut(&MemTable<AnyMedium>)) {
        self.retired.lock().memtables.iter().for_each(|(memtable, _)| look(memtable));
    }

    /// Gives back the arenas of retired MemTables without readers. Returns the bytes of their lists. What is not kept
    /// for recycling is removed without the lock, because that may take the disk a while, also in a reader's thread.
    /// LOCKS: arenas (held)
    fn reclaim(&self, mut retired: MutexGuard<'_, Retired>) -> Result<u64> {
        let (mut index, mut lists_bytes, mut unwanted) = (0, 0, Vec::new());
        while index < retired.memtables.len() {
            if Arc::strong_count(&retired.memtables[index].0) > 1 {
                index += 1;
                continue;
            }
            // It has no other owner, so it can't get one.
            let (memtable, _) = retired.memtables.swap_remove(index);
            let (generation, length_bytes) = (memtable.generation(), memtable.capacity_bytes());
            let past = memtable.arena().past();
            lists_bytes += memtable.memory_bytes();
            // A file from before the opening may have another name, in a copy of the directory made of hard links.
            let may_be_shared = memtable.is_recovered() && matches!(self.home, Home::Directory { .. });
            if may_be_shared || length_bytes != self.usual_bytes || retired.arenas.len() >= RECYCLED_MAX {
                unwanted.push(memtable);
            } else {
                drop(memtable);
                retired.arenas.push(Unused { generation, length_bytes, past });
            }
        }
        if unwanted.is_empty() {
            return Ok(lists_bytes);
        }
        // Counted under the lock, so that every MemTable is seen as retired, being given back, or returned.
        self.discarding.fetch_add(1, Ordering::SeqCst);
        drop(retired);
        let discarded = unwanted.into_iter().try_for_each(|memtable| {
            let generation = memtable.generation();
            drop(memtable);
            self.discard(generation)
        });
        self.returned.fetch_add(1, Ordering::SeqCst);
        self.discarding.fetch_sub(1, Ordering::SeqCst);
        discarded.map(|()| lists_bytes)
    }

    /// At a clean close: removes the arenas kept for recycling. On `Dram` it cuts `active` to what is used, so that a
    /// small store is a small directory. If a power cut takes that back, the next opening finds the longer file with
    /// the same content. REQUIRES: nothing is written to it any more.
    pub fn tidy(&self, active: Option<&Log<AnyMedium>>) -> Result<()> {
        self.give_back_unused()?;
        let (Home::Directory { env, directory, .. }, Some(active)) = (&self.home, active) else { return Ok(()) };
        let file = env.open_file(&names::arena(directory, active.generation()), OpenMode::ReadWrite)?;
        file.set_length(active.used_bytes())
    }

    /// Gives back the arenas that are kept for recycling. REQUIRES: none is being [made](Arenas::make).
    /// LOCKS: arenas
    pub fn give_back_unused(&self) -> Result<()> {
        let unused = std::mem::take(&mut self.retired.lock().arenas);
        unused.into_iter().try_for_each(|unused| self.discard(unused.generation))
    }

    /// The file of an arena, for messages.
    pub fn describe(&self, generation: u64) -> PathBuf {
        match &self.home {
            Home::Pool(pool) => pool.path().to_path_buf(),
            Home::Directory { directory, .. } => names::arena(directory, generation),
        }
    }

    fn extent(&self, pool: &Pool<AnyMedium>, generation: u64) -> Option<Extent> {
        pool.extents().into_iter().find(|e| e.kind == ExtentKind::Arena && u64::from(e.owner) == generation)
    }
}

/// How long an arena in this file is by its header.
fn length_in_header(file: &dyn File) -> Result<Option<u64>> {
    let mut front = [0; ARENA_HEADER_BYTES as usize];
    let read = file.read_at(&mut front, 0)?;
    Ok(arena_bytes_in_header(&front[..read]))
}

/// Reads the beginning of a file into zeroed memory. Zeros, such as those behind the records of most arenas, are not
/// copied, so that their pages need no memory.
fn read_sparse(file: &dyn File, bytes: &mut [u8]) -> Result<()> {
    let mut piece = vec![0; READ_BYTES];
    let zeros = vec![0; READ_BYTES];
    let mut offset = 0;
    for place in bytes.chunks_mut(READ_BYTES) {
        let piece = &mut piece[..place.len()];
        file.read_exact_at(piece, offset)?;
        if *piece != zeros[..piece.len()] {
            place.copy_from_slice(piece);
        }
        offset += piece.len() as u64;
    }
    Ok(())
}

/// Copies whole words out of a recovered arena. Every record begins and ends at one.
fn copy_words(arena: &Arena<AnyMedium>, offset: u64, into: &mut [u8]) {
    for (word, bytes) in (offset..).step_by(8).zip(into.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&arena.load_word(word).to_ne_bytes());
    }
}

/// A generation as the owner of an extent.
fn owner(generation: u64) -> Result<u32> {
    u32::try_from(generation).map_err(|_| Error::Unsupported {
        what: format!("generation {generation}: a pool has numbers for 4 billion arenas"),
        file: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use slmdb_pmem::PoolOptions;
    use slmdb_testkit::MemoryEnv;

    #[test]
    fn a_length_that_no_arena_has_is_not_believed() {
        let (env, directory) = (MemoryEnv::new(), Path::new("/db"));
        env.set_content(names::arena(directory, 1), b"short");
        let options =
            PoolOptions { initial_bytes: 1 << 20, growth_bytes: 1 << 20, maximum_bytes: 64 << 20, uuid: [1; 16] };
        let pool = Arc::new(Pool::anonymous(AnyMedium::dram(), &options).unwrap());
        let arenas = Arenas::new(&pool, Arc::new(env), directory, 4096);
        assert!(matches!(arenas.load(1, Some(u64::MAX)), Err(Error::Corruption { .. })));
        assert_eq!(arenas.load(1, Some(4096)).unwrap().unwrap().length_bytes(), 4096);
        let long = arenas.load(1, Some(LARGEST_ARENA_BYTES)).unwrap().unwrap();
        assert_eq!((long.length_bytes(), long.whole_bytes()), (5 + ZEROS_BEHIND_BYTES, LARGEST_ARENA_BYTES));
        assert!(arenas.load(2, Some(4096)).unwrap().is_none());
    }

    /// One of the other kind will do, too: there may be no space for another.
    #[test]
    fn an_arena_of_the_same_kind_is_recycled_first() {
        let (env, directory) = (MemoryEnv::new(), Path::new("/db"));
        env.create_directory(directory).unwrap();
        let options =
            PoolOptions { initial_bytes: 1 << 20, growth_bytes: 1 << 20, maximum_bytes: 64 << 20, uuid: [1; 16] };
        let pool = Arc::new(Pool::anonymous(AnyMedium::dram(), &options).unwrap());
        let arenas = Arenas::new(&pool, Arc::new(env.clone()), directory, 4096);
        let memtable = |generation, kind| {
            let arena = arenas.make(generation, 4096, kind).unwrap();
            assert_eq!(arena.kind(), kind);
            Arc::new(MemTable::create(arena, generation, [1; 16], &Default::default()))
        };
        let old = [memtable(1, ArenaKind::Unsynced), memtable(2, ArenaKind::Synced)];
        old.into_iter().for_each(|memtable| arenas.retire(memtable).unwrap());
        let (third, fourth) = (memtable(3, ArenaKind::Synced), memtable(4, ArenaKind::Synced));
        let name = |generation| names::arena(directory, generation).display().to_string();
        let renamed: Vec<String> = env.operations().into_iter().filter(|line| line.starts_with("rename")).collect();
        let expected = [(2, 3), (1, 4)].map(|(from, to)| format!("rename {} to {}", name(from), name(to)));
        assert_eq!(renamed, expected);
        // Each is of the kind that it was made for last.
        [third, fourth].into_iter().for_each(|memtable| arenas.retire(memtable).unwrap());
        drop((memtable(5, ArenaKind::Unsynced), memtable(6, ArenaKind::Synced)));
    }

    /// What was compared of the last few bytes was left from elsewhere.
    #[test]
    fn the_end_of_an_arena_of_an_odd_length_is_the_same_both_times() {
        let (env, directory) = (MemoryEnv::new(), Path::new("/db"));
        let mut content = vec![0x55; 2 * REWRITE_BYTES + 3];
        content[2 * REWRITE_BYTES - 8..].fill(0x11);
        env.set_content(names::arena(directory, 1), &content);
        let options =
            PoolOptions { initial_bytes: 1 << 20, growth_bytes: 1 << 20, maximum_bytes: 64 << 20, uuid: [1; 16] };
        let pool = Arc::new(Pool::anonymous(AnyMedium::dram(), &options).unwrap());
        let arenas = Arenas::new(&pool, Arc::new(env.clone()), directory, 4096);
        let arena = arenas.load(1, None).unwrap().unwrap();
        arenas.check_end(1, &arena, 0).unwrap();
        arenas.check_end(1, &arena, 800).unwrap();
        content[REWRITE_BYTES + 5] ^= 1;
        env.set_content(names::arena(directory, 1), &content);
        assert!(matches!(arenas.check_end(1, &arena, 800), Err(Error::Corruption { .. })));
    }
}
