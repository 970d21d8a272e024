//! The ballast: disk space for the MANIFEST when there is no other.
//!
//! What was accepted is flushed whatever happens, and a flush ends with a record in the MANIFEST. So a part of the disk is set
//! aside for that before a put is admitted, and given back to the file system piece by piece when a record finds no space.
//!
//! Flushes stop soon on a full disk, since nothing is admitted any more; compactions could go on for ever, and use up with their
//! records what flushes will need. And a compaction's record that finds no space holds up every flush behind it. So a
//! compaction begins only with the ballast full; if it can't be, one that gives space back is begun all the same while
//! there is enough for its own record and others ([`Store::ensure_ballast_for`]). Whether there still is, is looked at
//! again before keys are moved to each of its files ([`Store::ensure_ballast_for_moving`]): what is not moved yet can be
//! given up. Deletes, the way out, do with a part of the ballast, too. What is kept back for compactions makes the ballast
//! full if nothing else can; but for what the output of one file takes and the little that table files of deletes need
//! ([`KeptBack::least_bytes`](crate::space::kept_back::KeptBack::least_bytes)), which come before all of the ballast but
//! its least. A full ballast without them would be of no use: garbage could not be compacted away any more.

use std::sync::atomic::Ordering;

use slmdb_engine::space::reserved_file::{BALLAST, ReservedFile};
use slmdb_env::{Error, Result};
use slmdb_pmem::Medium;

use crate::compaction::plan::{In, Plan};
use crate::space::kept_back::BALLAST_STEP_BYTES;
use crate::store::Store;

/// Limits of the ballast, in bytes.
const BALLAST_BYTES_MIN: u64 = 16 << 10;
const BALLAST_BYTES_MAX: u64 = 1 << 20;
/// How much of it deletes leave to compactions that give space back, and those to flushes.
const STEPS_FOR_DELETES: u64 = 3;
const STEPS_FOR_ROOM: u64 = 2;
/// What a MANIFEST record has of each input of a compaction, at most, in bytes.
const RECORD_BYTES_PER_INPUT: u64 = 32;

impl<M: Medium + Clone> Store<M> {
    /// Makes the ballast as large as it should be, then what is kept back for a compaction.
    pub(crate) fn fill_ballast(&self) -> Result<()> {
        let raised = self.raise_ballast();
        // Also if the ballast is not full: what a compaction needs comes before all of it.
        let filled = self.kept_back.fill(&*self.env, &self.directory, raised.is_ok());
        raised.and(filled)
    }

    /// Makes the ballast as large as it should be: enough for the next opening to write the MANIFEST anew, with the records of the
    /// flushes to come, and for these records themselves. [`Error::Full`]: only a part of it is there.
    fn raise_ballast(&self) -> Result<()> {
        let ballast = self.ballast()?;
        let usual = (self.options.memtable_bytes / 8).clamp(BALLAST_BYTES_MIN, BALLAST_BYTES_MAX);
        let manifest_bytes = self.manifest_bytes.load(Ordering::Relaxed);
        let record_bytes = self.longest_keys_bytes();
        let with_keys = BALLAST_BYTES_MIN + record_bytes;
        let with_records = BALLAST_BYTES_MIN + 2 * self.flushes_to_come() * record_bytes;
        match self.fill_for_deletes(ballast) {
            Ok(()) | Err(Error::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        let (kept_back, wanted) = (&self.kept_back, usual.max(manifest_bytes + with_records));
        let full = match self.raise_sparing(ballast, wanted, kept_back.least_bytes()) {
            Err(full @ Error::Full { .. }) => full,
            done => return done,
        };
        for (less, spared_bytes) in [(with_keys, kept_back.for_deletes_bytes()), (BALLAST_BYTES_MIN, 0)] {
            match self.raise_sparing(ballast, less, spared_bytes) {
                Err(Error::Full { .. }) => {}
                Ok(()) => break,
                Err(error) => return Err(error),
            }
        }
        Err(full)
    }

    /// The ballast, which is made if there was none: once, for whoever made it again would cut off what is in it.
    fn ballast(&self) -> Result<&ReservedFile> {
        let _making = self.making_ballast.lock();
        if let Some(ballast) = self.ballast.get() {
            return Ok(ballast);
        }
        let made = ReservedFile::new(&*self.env, &self.directory, BALLAST)?;
        Ok(self.ballast.get_or_init(|| made))
    }

    /// The least of the ballast, and then what deletes need.
    fn fill_for_deletes(&self, ballast: &ReservedFile) -> Result<()> {
        ballast.raise(BALLAST_BYTES_MIN)?;
        self.kept_back.fill_for_deletes(&*self.env, &self.directory)
    }

    /// Raises it, also by what is kept back for compactions but for so much of that.
    fn raise_sparing(&self, ballast: &ReservedFile, wanted: u64, spared_bytes: u64) -> Result<()> {
        let more_bytes = wanted.saturating_sub(ballast.length_bytes());
        if more_bytes == 0 {
            return Ok(());
        }
        let free_bytes = self.env.available_bytes(&self.directory).ok();
        let kept_bytes = self.kept_back.length_bytes();
        // (It is not there while a compaction has it, and that may leave others the time to take what it gives back.)
        let owed_bytes = spared_bytes.saturating_sub(kept_bytes);
        let raised = match free_bytes {
            Some(free_bytes) if owed_bytes > 0 && free_bytes < more_bytes + owed_bytes => {
                Err(ballast.full("what is left is for deletes and compactions"))
            }
            _ => ballast.raise(wanted),
        };
        let full = match raised {
            Err(full @ Error::Full { .. }) => full,
            done => return done,
        };
        let missing_bytes = more_bytes.saturating_sub(free_bytes.unwrap_or(0)) + BALLAST_STEP_BYTES;
        if kept_bytes < missing_bytes + spared_bytes {
            return Err(full);
        }
        self.kept_back.lower_by(missing_bytes)?;
        ballast.raise(wanted)
    }

    /// What the keys in a MANIFEST record take, if they are the longest.
    fn longest_keys_bytes(&self) -> u64 {
        let indexed_bytes = self.indexed_keys.lock().longest_bytes;
        2 * u64::from(indexed_bytes.max(self.writes.traffic.lock().admitted.long_keys.longest_bytes))
    }

    /// The MemTables that wait for their flush, or will, and the next.
    fn flushes_to_come(&self) -> u64 {
        let traffic = self.writes.traffic.lock();
        let has_entries = traffic.active.as_ref().is_some_and(|active| active.totals.entries > 0);
        traffic.immutables as u64 + u64::from(has_entries) + 1
    }

    /// Whether the MANIFEST will have space for the records of a compaction, and for others after it. [`Error::Full`]: it
    /// must not begin.
    pub(crate) fn ensure_ballast_for(&self, plan: &Plan, space: In) -> Result<()> {
        let least_bytes = self.least_ballast_bytes(plan.inputs.len());
        self.ensure_ballast(if space == In::KeptBack { least_bytes } else { u64::MAX })
    }

    /// The same of one that has written a file, before the first key is moved to it: others may have taken the disk's space meanwhile,
    /// and flushes the ballast.
    pub(crate) fn ensure_ballast_for_moving(&self, inputs: usize) -> Result<()> {
        self.ensure_ballast(self.least_ballast_bytes(inputs))
    }

    /// What the record of a compaction of so many files takes at most, and others after it.
    fn least_ballast_bytes(&self, inputs: usize) -> u64 {
        let record_bytes = self.longest_keys_bytes() + inputs as u64 * RECORD_BYTES_PER_INPUT;
        record_bytes + STEPS_FOR_ROOM * BALLAST_STEP_BYTES
    }

    /// Whether it will for the record of a flush of deletes. They do with less of it than puts.
    pub(crate) fn ensure_ballast_for_deletes(&self) -> Result<()> {
        self.ensure_ballast(STEPS_FOR_DELETES * BALLAST_STEP_BYTES)
    }

    /// Makes the ballast as large as it should be. [`Error::Full`]: it is not, and not even so large.
    fn ensure_ballast(&self, least_bytes: u64) -> Result<()> {
        let has_least = || self.ballast.get().is_some_and(|ballast| ballast.length_bytes() >= least_bytes);
        match self.raise_ballast() {
            Err(Error::Full { .. }) if has_least() => Ok(()),
            done => done,
        }
    }

    /// Gives back to the file system what of the ballast a new MANIFEST may take, for that alone. Returns how much ballast there was.
    pub(crate) fn lend_ballast(&self) -> Result<u64> {
        let Some(ballast) = self.ballast.get() else { return Ok(0) };
        let before_bytes = ballast.length_bytes();
        ballast.lower_by(before_bytes.saturating_sub(STEPS_FOR_ROOM * BALLAST_STEP_BYTES))?;
        Ok(before_bytes)
    }

    /// There is to be as much as before, if that can be.
    pub(crate) fn take_ballast_back(&self, before_bytes: u64) -> Result<()> {
        match self.ballast.get().map_or(Ok(()), |ballast| ballast.raise(before_bytes)) {
            Err(Error::Full { .. }) => Ok(()),
            raised => raised,
        }
    }

    /// Gives some of the ballast back to a full disk. Says whether there was any.
    pub(crate) fn lower_ballast(&self) -> Result<bool> {
        let lowered = self.ballast.get().map_or(Ok(false), |ballast| ballast.lower_by(BALLAST_STEP_BYTES))?;
        if lowered { Ok(true) } else { self.kept_back.lower_by(BALLAST_STEP_BYTES) }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use slmdb_env::memory::{MemoryEnv, Random};
    use slmdb_env::{Env, Error};
    use slmdb_pmem::Persistent;

    use crate::recovery::open;
    use crate::space::kept_back::FOR_DELETES_BYTES;
    use crate::store::Store;
    use slmdb_engine::batch::Totals;
    use slmdb_engine::files::file_names as names;
    use slmdb_engine::space::admission::Wanted;
    use slmdb_engine::space::reserved_file::BALLAST;
    use slmdb_engine::write::memtables::FlushSetback;
    use slmdb_engine::{CompactionOptions, CompactionPolicy, Medium, Options, WriteBatch};
    use slmdb_sync::scheduled::Instant;

    const CAPACITY_BYTES: u64 = 256 << 20;

    /// A store that nothing happens in by itself, into which this was put, and flushed if it is so wanted, before it was opened.
    fn store_with(key: &[u8], value: &[u8], is_flushed: bool) -> (MemoryEnv, Store<Persistent>) {
        let (env, directory) = (MemoryEnv::new(), Path::new("/db"));
        let options = Options {
            env: Arc::new(env.clone()),
            medium: Some(Medium::Emulated { path: "/pool".into() }),
            memtable_bytes: 64 << 10,
            pool_initial_bytes: 4 << 20,
            compaction: CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() },
            ..Options::default()
        };
        let engine = open::open(&options, directory).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(key, value).unwrap();
        engine.write(&batch, true).unwrap();
        if is_flushed {
            engine.flush().unwrap();
        }
        engine.close().unwrap();
        drop(engine);
        env.set_capacity(CAPACITY_BYTES);
        let store = open::without_threads(Persistent::new(), &options, directory).unwrap();
        store.fill_ballast().unwrap();
        (env, store)
    }

    /// The same with a table file, on a disk that is full, but for what is kept back as large as that.
    fn on_a_full_disk() -> (MemoryEnv, Store<Persistent>) {
        let mut value = [0; 50_000];
        Random(1).fill(&mut value);
        let (env, store) = store_with(b"key", &value, true);
        assert!(store.kept_back.length_bytes() >= value.len() as u64);
        fill_disk(&env, &store);
        (env, store)
    }

    /// Leaves nothing free.
    fn fill_disk(env: &MemoryEnv, store: &Store<Persistent>) {
        env.set_capacity(CAPACITY_BYTES);
        env.set_capacity(CAPACITY_BYTES - env.available_bytes(&store.directory).unwrap());
    }

    /// The record of each flush to come takes of the ballast, and lengthens the MANIFEST that it is for.
    #[test]
    fn it_is_enough_for_the_records_of_flushes_to_come() {
        const KEY_BYTES: usize = 9000;
        let (_, store) = store_with(&[7; KEY_BYTES], b"value", false);
        // The MemTable that is there, and the next; the smallest key and the largest.
        let records_bytes = 2 * 2 * 2 * KEY_BYTES as u64;
        let ballast_bytes = store.ballast.get().unwrap().length_bytes();
        assert!(ballast_bytes >= records_bytes, "{ballast_bytes} bytes of ballast for {records_bytes} of records");
    }

    /// (It was made twice, and the second cut off what the first had: the ballast was there by its account alone.)
    #[test]
    fn two_that_need_it_first_at_once_make_one() {
        let (env, mut store) = store_with(b"key", b"value", true);
        for round in 0..500 {
            store.ballast.take().unwrap().discard(&env).unwrap();
            let begin = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        begin.wait();
                        store.fill_ballast().unwrap();
                    });
                }
            });
            let content = env.content(names::space(&store.directory, BALLAST)).unwrap();
            assert_eq!(content.len() as u64, store.ballast.get().unwrap().length_bytes(), "round {round}");
        }
    }

    /// Deletes are the way out. (When the MANIFEST had become long, the ballast for it took all that compactions had given back, and a
    /// delete was refused.)
    #[test]
    fn a_ballast_that_grows_leaves_deletes_their_space() {
        let (env, store) = on_a_full_disk();

        // Of what is kept back for a compaction the ballast takes what it lacks, but not all.
        let (ballast_bytes, kept_bytes) = (store.ballast.get().unwrap().length_bytes(), store.kept_back.length_bytes());
        for more_bytes in (0..kept_bytes).step_by(1000) {
            store.manifest_bytes.store(ballast_bytes + more_bytes, Ordering::Relaxed);
            let raised = store.fill_ballast();
            assert!(matches!(raised, Err(Error::Full { .. })), "{raised:?}");
            let left_bytes = store.kept_back.length_bytes();
            assert!(left_bytes >= FOR_DELETES_BYTES, "{left_bytes} of {kept_bytes} when {more_bytes} more are wanted");
        }

        // What a compaction had and gives back is not all for the ballast, either.
        store.kept_back.discard(&env).unwrap();
        store.manifest_bytes.store(CAPACITY_BYTES, Ordering::Relaxed);
        assert!(matches!(store.fill_ballast(), Err(Error::Full { .. })));
        assert!(store.kept_back.length_bytes() >= FOR_DELETES_BYTES);
    }

    /// Of what is kept back they get what there is beside that.
    #[test]
    fn deletes_of_long_keys_leave_others_their_space() {
        let (_env, store) = on_a_full_disk();
        let kept_bytes = store.kept_back.length_bytes();
        for keys in 1..10 {
            let mut totals = Totals::default();
            totals.add(2500, None);
            store.set_aside(Wanted::new(&totals.times(keys), true)).unwrap();
            let left_bytes = store.kept_back.length_bytes();
            assert!(left_bytes >= FOR_DELETES_BYTES, "{left_bytes} of {kept_bytes} after {keys} keys");
        }
        assert!(store.kept_back.length_bytes() < kept_bytes, "they got something");
    }

    /// A flush that has found no space for a moment was taken for one that never will. (A delete was refused while a
    /// compaction had what was kept back: one of some hundred stores filled to the last byte, on a busy machine.)
    #[test]
    fn a_delete_is_not_refused_while_a_flush_waits_for_space_for_a_moment() {
        let mut one = Totals::default();
        one.add(10, None);
        let wanted = Wanted::new(&one, true);
        for goes_on in [true, false] {
            let (env, store) = on_a_full_disk();
            store.kept_back.discard(&env).unwrap();
            fill_disk(&env, &store);
            let cause = Error::Full { path: store.directory.clone(), what: "nothing".into() };
            store.writes.traffic.lock().flush_setback = Some(FlushSetback { cause, since: Instant::now() });
            store.writes.want_space(&mut store.writes.traffic.lock(), wanted);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    if goes_on {
                        env.set_capacity(CAPACITY_BYTES);
                        let mut traffic = store.writes.traffic.lock();
                        traffic.flush_setback = None;
                        traffic.space_returned += 1;
                        store.writes.work.notify_all();
                    }
                });
                // As the thread does it that sets space aside.
                while store.writes.traffic.lock().space_wanted.is_some() {
                    store.set_aside(wanted).unwrap();
                }
            });
            let refused = store.writes.traffic.lock().setbacks.check_space(0, &wanted).is_err();
            assert_eq!(refused, !goes_on, "it waits, but not for ever");
        }
    }

    /// As long as there is enough for it, though not for a step more. (It was refused.) But not what a compaction needs.
    /// (It got that, and then its garbage could not be compacted away any more.)
    #[test]
    fn a_delete_gets_the_last_of_what_is_kept_back_for_deletes() {
        const LITTLE_BYTES: u64 = 3000;
        let (env, store) = on_a_full_disk();
        let for_one_file_bytes = store.kept_back.for_one_file_bytes();
        let used_bytes = store.kept_back.length_bytes() - for_one_file_bytes - LITTLE_BYTES;
        store.kept_back.lower_by(used_bytes).unwrap();
        fill_disk(&env, &store);
        assert_eq!(store.kept_back.length_bytes(), for_one_file_bytes + LITTLE_BYTES);

        let mut totals = Totals::default();
        totals.add(10, None);
        store.set_aside(Wanted::new(&totals, true)).unwrap();
        let set_aside_bytes = store.writes.traffic.lock().active.as_ref().unwrap().space_bytes();
        assert!((1..=LITTLE_BYTES).contains(&set_aside_bytes), "{set_aside_bytes} bytes for a delete");
        assert_eq!(store.kept_back.length_bytes() + set_aside_bytes, for_one_file_bytes + LITTLE_BYTES);

        store.set_aside(Wanted::new(&totals.times(500), true)).unwrap();
        assert!(store.kept_back.length_bytes() >= for_one_file_bytes);
        let refused = store.writes.traffic.lock().setbacks.check_space(0, &Wanted::new(&totals.times(500), true));
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    }
}
