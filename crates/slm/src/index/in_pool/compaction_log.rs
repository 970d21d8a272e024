//! Job records in the pool: how far each flush and compaction has come (the paper's compaction log, section 3.3).
//!
//! A record names the table file that is being made, the phase, and the MemTable if it is a flush.
//!
//! - *Building*, a flush: its output may be dropped.
//! - *Indexing*, a flush: the table file and its key segment are durable, and the index may already point to them.
//!   Recovery carries on from there.
//! - *Repointing*, an output of a compaction: the file is durable, and keys are moving to it from other files. Each
//!   output is a job of its own, recorded once it is durable.
//!
//! The MANIFEST's record ends the job. On `Dram` there are no job records: the index does not outlive the process, so
//! the MANIFEST alone says what is done.
//!
//! The pool's root area holds [`SLOTS`] records of 64 bytes, from [`FIRST_SLOT_OFFSET`] on:
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 8 | phase (low 32 bits; 0: the slot is free), crc32c of words 1 to 4 and the phase (high 32 bits) |
//! | 8 | 8 | generation of the MemTable's arena; 0 for a compaction |
//! | 16 | 8 | number of the table file |
//! | 24 | 8 | last sequence number in the MemTable; 0 for a compaction |
//! | 32 | 8 | order: larger for later flushes; for a compaction the number of its file |
//!
//! Word 0 is written last and changes by one 8-byte store.

use slmdb_engine::lock_order;
use slmdb_env::{Error, Result};
use slmdb_pmem::Pool;
use slmdb_pmem::{AnyMedium, medium::CACHE_LINE_BYTES};
use slmdb_sync::scheduled::Mutex;

/// How many jobs may be recorded at once. A flush takes up to three: one that is indexed, one that waits for it, one
/// that is built. Each compaction takes as many, and [`COMPACTIONS_MAX`](slmdb_engine::options::COMPACTIONS_MAX) may
/// run at once.
pub(crate) const SLOTS: u64 = 3 + 3 * slmdb_engine::options::COMPACTIONS_MAX as u64;

/// Offset of the first slot in the pool's root area; what lies before belongs to the tree.
pub(crate) const FIRST_SLOT_OFFSET: u64 = 1024;

const SLOT_BYTES: u64 = 64;
const _: () = assert!(FIRST_SLOT_OFFSET + SLOTS * SLOT_BYTES <= slmdb_pmem::ROOT_BYTES);
const _: () = assert!(SLOT_BYTES == CACHE_LINE_BYTES && FIRST_SLOT_OFFSET.is_multiple_of(CACHE_LINE_BYTES));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A flush whose output is not durable yet.
    Building = 1,
    /// A flush whose output is durable.
    Indexing = 2,
    /// An output of a compaction that is durable.
    Repointing = 3,
}

/// A flush, or one output of a compaction, under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) phase: Phase,
    pub(crate) generation: u64,
    pub(crate) file: u32,
    pub(crate) last_sequence: u64,
    pub(crate) order: u64,
}

impl Job {
    /// The job of a compaction's output.
    pub(crate) fn moving(file: u32) -> Job {
        Job { phase: Phase::Repointing, generation: 0, file, last_sequence: 0, order: u64::from(file) }
    }

    fn words(&self) -> [u64; 4] {
        [self.generation, u64::from(self.file), self.last_sequence, self.order]
    }

    fn state_word(&self) -> u64 {
        state_word(self.phase as u32, self.words())
    }
}

fn state_word(phase: u32, words: [u64; 4]) -> u64 {
    let crc = words.iter().fold(slmdb_checksum::crc32c(&phase.to_le_bytes()), |crc, word| {
        slmdb_checksum::crc32c_append(crc, &word.to_le_bytes())
    });
    u64::from(phase) | u64::from(crc) << 32
}

/// The slots for job records in one pool, and which are taken.
#[derive(Debug)]
pub(crate) struct CompactionLog {
    taken: Mutex<[bool; SLOTS as usize]>,
}

impl Default for CompactionLog {
    fn default() -> CompactionLog {
        CompactionLog { taken: Mutex::ranked(lock_order::JOBS, Default::default()) }
    }
}

/// A slot that holds the record of a job.
#[derive(Debug)]
pub(crate) struct Slot(u64);

impl CompactionLog {
    /// Writes a record for `job` into a free slot. Durable on return.
    /// LOCKS: jobs
    pub(crate) fn record(&self, pool: &Pool<AnyMedium>, job: &Job) -> Result<Slot> {
        let index = {
            let mut taken = self.taken.lock();
            let free = taken.iter().position(|taken| !taken);
            let Some(index) = free else {
                return Err(Error::invalid("more jobs at once than the pool has slots for"));
            };
            taken[index] = true;
            index as u64
        };
        let offset = slot_offset(pool, index);
        for (word, value) in (1..).zip(job.words()) {
            pool.store(offset + 8 * word, value)?;
        }
        // The record is one cache line, so word 0 is not durable before the others.
        self.advance(pool, &Slot(index), job)?;
        Ok(Slot(index))
    }

    /// Sets the record to the job's phase. Durable on return.
    pub(crate) fn advance(&self, pool: &Pool<AnyMedium>, slot: &Slot, job: &Job) -> Result<()> {
        let offset = slot_offset(pool, slot.0);
        pool.store(offset, job.state_word())?;
        pool.persist(offset, SLOT_BYTES);
        Ok(())
    }

    /// Ends the record and frees its slot. Durable on return.
    /// LOCKS: jobs
    pub(crate) fn clear(&self, pool: &Pool<AnyMedium>, slot: Slot) -> Result<()> {
        let offset = slot_offset(pool, slot.0);
        pool.store(offset, 0)?;
        pool.persist(offset, 8);
        self.taken.lock()[slot.0 as usize] = false;
        Ok(())
    }

    /// The jobs that an earlier opening left, each with its slot, in the order in which recovery must carry them on.
    /// Outputs of compactions come first, because flushes may have replaced entries in them; then flushes, oldest
    /// first.
    pub(crate) fn left(&self, pool: &Pool<AnyMedium>) -> Result<Vec<(Job, Slot)>> {
        let mut jobs = Vec::new();
        for index in 0..SLOTS {
            let offset = slot_offset(pool, index);
            let state = pool.load(offset)?;
            if state == 0 {
                continue;
            }
            let mut words = [0; 4];
            for (word, value) in (1..).zip(words.iter_mut()) {
                *value = pool.load(offset + 8 * word)?;
            }
            let phase = match state as u32 {
                1 => Some(Phase::Building),
                2 => Some(Phase::Indexing),
                3 => Some(Phase::Repointing),
                _ => None,
            };
            let (Some(phase), Ok(file)) =
                (phase.filter(|_| state == state_word(state as u32, words)), words[1].try_into())
            else {
                return Err(Error::corruption(pool.path(), offset, "a job record does not fit its checksum"));
            };
            let job = Job { phase, generation: words[0], file, last_sequence: words[2], order: words[3] };
            self.taken.lock()[index as usize] = true;
            jobs.push((job, Slot(index)));
        }
        jobs.sort_by_key(|(job, _)| (job.phase != Phase::Repointing, job.order));
        Ok(jobs)
    }
}

fn slot_offset(pool: &Pool<AnyMedium>, index: u64) -> u64 {
    pool.root_offset() + FIRST_SLOT_OFFSET + index * SLOT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use slmdb_pmem::{AnyMedium, PoolOptions};
    use slmdb_testkit::{Simulated, medium::Choice};

    #[test]
    fn records_are_found_again_in_order_and_torn_ones_not_believed() {
        let options =
            PoolOptions { initial_bytes: 2 << 20, growth_bytes: 1 << 20, maximum_bytes: 64 << 20, uuid: [1; 16] };
        let pool = Pool::anonymous(AnyMedium::dram(), &options).unwrap();
        let jobs = CompactionLog::default();
        let mut first = Job { phase: Phase::Building, generation: 9, file: 3, last_sequence: 77, order: 2 };
        let second = Job { phase: Phase::Building, generation: 8, file: 2, last_sequence: 70, order: 1 };
        let slot = jobs.record(&pool, &first).unwrap();
        jobs.record(&pool, &second).unwrap();
        first.phase = Phase::Indexing;
        jobs.advance(&pool, &slot, &first).unwrap();

        let found = CompactionLog::default().left(&pool).unwrap();
        assert_eq!(found.iter().map(|(job, _)| *job).collect::<Vec<_>>(), [second, first]);
        let third = jobs.record(&pool, &Job::moving(12)).unwrap();
        let found = CompactionLog::default().left(&pool).unwrap();
        assert_eq!(found.iter().map(|(job, _)| *job).collect::<Vec<_>>(), [Job::moving(12), second, first]);
        jobs.clear(&pool, third).unwrap();

        pool.store(slot_offset(&pool, 0) + 24, 78).unwrap();
        assert!(matches!(CompactionLog::default().left(&pool), Err(Error::Corruption { .. })));
        jobs.clear(&pool, slot).unwrap();
        assert_eq!(CompactionLog::default().left(&pool).unwrap().len(), 1);
    }

    /// What one thread has done others rest on, and it may never fence again: a compaction takes away the file of a
    /// job that the index thread has ended.
    #[test]
    fn each_step_of_a_record_is_durable_on_return_whoever_took_it() {
        let options =
            PoolOptions { initial_bytes: 1 << 20, growth_bytes: 1 << 20, maximum_bytes: 64 << 20, uuid: [1; 16] };
        let medium = Simulated::new();
        let pool = Pool::anonymous(AnyMedium::other(medium.clone()), &options).unwrap();
        let jobs = CompactionLog::default();
        let left_by_a_crash = || {
            let mut replay = medium.history().replay();
            replay.to_moment(medium.moment());
            let pool = Pool::from_image(AnyMedium::dram(), replay.image(Choice::Nothing)).unwrap();
            CompactionLog::default().left(&pool).unwrap().into_iter().map(|(job, _)| job).collect::<Vec<_>>()
        };
        let mut job = Job { phase: Phase::Building, generation: 9, file: 3, last_sequence: 77, order: 2 };
        let slot = apart(|| jobs.record(&pool, &job).unwrap());
        assert_eq!(left_by_a_crash(), [job]);
        job.phase = Phase::Indexing;
        apart(|| jobs.advance(&pool, &slot, &job).unwrap());
        assert_eq!(left_by_a_crash(), [job]);
        apart(|| jobs.clear(&pool, slot).unwrap());
        assert_eq!(left_by_a_crash(), []);
    }

    /// Done by a thread that ends with it.
    fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap())
    }
}
