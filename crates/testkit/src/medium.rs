//! The medium that remembers everything, and shows what a crash could have left.
//!
//! A [`Simulated`] medium records every store, copy, flush and fence that the pool on it is asked for, in one order. The
//! record, a [`History`], is replayed after the run; a [`Replay`] stops at every moment worth crashing at and makes
//! *images*: the bytes of the pool as a crash at that moment could leave them. [`Pool::from_image`](slmdb_pmem::Pool::from_image)
//! opens one, and the test looks whether everything that was acknowledged by then is there.
//!
//! ```
//! use slmdb_pmem::{Pool, PoolOptions};
//! use slmdb_testkit::Simulated;
//!
//! let options = PoolOptions { initial_bytes: 0, growth_bytes: 0, maximum_bytes: 1 << 20, uuid: [1; 16] };
//! let medium = Simulated::new();
//! let pool = Pool::anonymous(medium.clone(), &options)?;
//! let word = pool.root_offset();
//! let mut acknowledged = vec![(medium.moment(), 0)];
//! for value in 1..10 {
//!     pool.store(word, value)?;
//!     pool.persist(word, 8);
//!     acknowledged.push((medium.moment(), value));
//! }
//!
//! let mut replay = medium.history().replay();
//! replay.to_moment(acknowledged[0].0); // leave out the creation of the pool
//! while replay.to_next_crash() {
//!     let last = acknowledged.iter().rfind(|(moment, _)| *moment <= replay.moment()).map_or(0, |(_, value)| *value);
//!     for image in replay.images(8, 42) {
//!         let crashed = Pool::from_image(Simulated::new(), image)?;
//!         let found = crashed.load(word)?;
//!         assert!(found == last || found == last + 1, "{found} where {last} was acknowledged");
//!     }
//! }
//! # Ok::<(), slmdb_env::Error>(())
//! ```
//!
//! What a crash may leave follows the rules of [`slmdb_pmem::medium`], line by line and independently: everything that
//! was flushed and then fenced by the same thread, and of the later stores to that line any prefix; and where the next
//! one is a copy, any of its words beside. Since later stores only add prefixes, crashing just before every fence and at
//! the end shows everything that a crash in between could.
//!
//! One medium serves one pool at a time. It may be used by many threads; they wait for each other, and the record's order
//! is the order in which the stores happened. With one thread the record is the same in every run.
#![allow(unsafe_code)]

mod history;
mod replay;

pub use history::{History, Stop};
pub use replay::{Choice, Pick, Replay};

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use slmdb_pmem::medium::{CACHE_LINE_BYTES, FlushCounters, Medium};
use slmdb_pmem::persistent::MEDIA_UNIT_BYTES;
use slmdb_sync::mapped::AtomicU64;
use slmdb_sync::scheduled::{Mutex, MutexGuard};
use slmdb_sync::turns;

use crate::{Recording, Step};
use history::Event;

/// Content is compared by pages first.
const PAGE_BYTES: usize = 4096;

/// Records every store, flush and fence. See the module's essay. Clones share one record.
#[derive(Debug, Clone, Default)]
pub struct Simulated {
    recording: Arc<Recording>,
    /// Others draw from the recording, too: it goes on when the pool is closed and opened again.
    is_one_of_several: bool,
    /// What of the pool that is attached first is durable, if that is not all of it.
    durable: Arc<[u8]>,
    recorder: Arc<Mutex<Recorder>>,
}

#[derive(Debug, Default)]
struct Recorder {
    /// Where the pool is in memory: address and length. Stores elsewhere are stores and no more.
    memory: Option<(usize, usize)>,
    /// How much of a pool was known when one was attached last.
    attached_bytes: usize,
    /// A pool was made in a new file: what was durable of the one before says nothing of it.
    is_new: bool,
    /// Of the pool that was attached last.
    history: History,
    /// Of those before it, in other memory.
    earlier: Vec<History>,
    counters: FlushCounters,
    /// By thread, if it has flushed since its last fence: the media units of the latest flush and of those before it that
    /// overlap with it.
    unfenced: HashMap<u32, Range<u64>>,
}

impl Simulated {
    /// A medium with nothing recorded.
    pub fn new() -> Simulated {
        Simulated::default()
    }

    /// A medium whose events are numbered in this recording, together with those of others. Its record goes on when the pool is
    /// closed and the same one is opened again, and with each new pool in a file it begins anew ([`Simulated::histories`]).
    pub fn recording(recording: Arc<Recording>) -> Simulated {
        Simulated { recording, is_one_of_several: true, ..Simulated::default() }
    }

    /// The same, for a pool that a killed process has left: these bytes of it, from its beginning on, are durable, and where the
    /// pool that is attached differs, it has stores that nobody flushed: the processor's caches outlive a process.
    pub fn with_durable(self, bytes: Vec<u8>) -> Simulated {
        Simulated { durable: bytes.into(), ..self }
    }

    /// The number of events so far. What was acknowledged at a moment must be in every image of a crash at that moment or
    /// later.
    pub fn moment(&self) -> u64 {
        self.recording.moment()
    }

    /// What was recorded so far of each pool, in the order in which they were made: a new one in a new file is another.
    pub fn histories(&self) -> Vec<History> {
        let recorder = self.recorder();
        let all = recorder.earlier.iter().chain([&recorder.history]);
        all.map(|history| history.until(self.recording.moment())).collect()
    }

    /// What was recorded so far.
    pub fn history(&self) -> History {
        let recorder = self.recorder();
        recorder.history.until(self.recording.moment())
    }

    /// Shows a step to the observer, and notes that a crash is worth looking at here; whether the step is to be done.
    fn is_done(&self, recorder: &mut Recorder, step: Step) -> bool {
        let seen = self.recording.see(step);
        if step == Step::Fence || !seen.done {
            let moment = self.recording.moment();
            recorder.history.push_stop(Stop { moment, step, done: seen.done, call_path: seen.path });
        }
        seen.done
    }

    fn push(&self, recorder: &mut Recorder, event: Event) {
        recorder.history.push(self.recording.draw(), event);
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock()
    }
}

impl Recorder {
    /// The pool offset of an address, if the range is in the pool.
    fn offset(&self, address: usize, length_bytes: usize) -> Option<u64> {
        let (base, length) = self.memory?;
        let offset = address.checked_sub(base)?;
        (offset + length_bytes <= length).then_some(offset as u64)
    }

    /// Counts a flush. Media units that the thread's flush before this one touched, too, are not counted again.
    fn count(&mut self, thread: u32, address: u64, length_bytes: u64) {
        let touched = |unit_bytes: u64| address / unit_bytes..(address + length_bytes).div_ceil(unit_bytes);
        let (lines, units) = (touched(CACHE_LINE_BYTES), touched(MEDIA_UNIT_BYTES));
        let latest = self.unfenced.entry(thread).or_default();
        let again = (units.end.min(latest.end)).saturating_sub(units.start.max(latest.start));
        self.counters.lines_flushed += lines.end - lines.start;
        self.counters.media_bytes += (units.end - units.start - again) * MEDIA_UNIT_BYTES;
        self.counters.bytes_asked += length_bytes;
        *latest = if again > 0 { units.start.min(latest.start)..units.end.max(latest.end) } else { units };
    }
}

impl Medium for Simulated {
    fn is_persistent(&self) -> bool {
        true
    }

    /// One that records together with others decides itself what a power cut leaves.
    fn survives_power_cut(&self) -> bool {
        self.is_one_of_several
    }

    /// Nor does it matter to one that records how a file is mapped.
    fn needs_direct_mapping(&self) -> bool {
        false
    }

    fn store(&self, word: &AtomicU64, value: u64) {
        let mut recorder = self.recorder();
        if let Some(offset) = recorder.offset(word.as_ptr().addr(), 8) {
            self.push(&mut recorder, Event::Store { offset, value });
        }
        word.store(value, Ordering::Release);
    }

    fn compare_exchange(&self, word: &AtomicU64, current: u64, new: u64) -> Result<u64, u64> {
        let mut recorder = self.recorder();
        let result = word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
        if let (Ok(_), Some(offset)) = (result, recorder.offset(word.as_ptr().addr(), 8)) {
            let seen = self.recording.see(Step::CompareExchange);
            let moment = self.recording.draw();
            recorder.history.push_stop(Stop { moment, step: Step::CompareExchange, done: true, call_path: seen.path });
            recorder.history.push(moment, Event::Store { offset, value: new });
        }
        result
    }

    unsafe fn copy(&self, to: *mut u8, from: &[u8]) {
        let mut recorder = self.recorder();
        if let Some(offset) = recorder.offset(to.addr(), from.len()) {
            self.push(&mut recorder, Event::Copy { offset, bytes: from.into() });
        }
        // SAFETY: the caller's promise, word for word.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }

    unsafe fn zero(&self, to: *mut u8, length_bytes: usize) {
        let mut recorder = self.recorder();
        if let Some(offset) = recorder.offset(to.addr(), length_bytes) {
            self.push(&mut recorder, Event::Zero { offset, length_bytes: length_bytes as u64 });
        }
        // SAFETY: the caller's promise, word for word.
        unsafe { std::ptr::write_bytes(to, 0, length_bytes) }
    }

    fn flush(&self, start: *const u8, length_bytes: usize) {
        if length_bytes == 0 {
            return;
        }
        let mut recorder = self.recorder();
        let thread = this_thread();
        let lines = recorder
            .offset(start.addr(), length_bytes)
            .map(|offset| offset / CACHE_LINE_BYTES..(offset + length_bytes as u64).div_ceil(CACHE_LINE_BYTES));
        if !self.is_done(&mut recorder, Step::Flush) {
            lines.into_iter().for_each(|lines| self.push(&mut recorder, Event::FlushLeftOut { thread, lines }));
            return;
        }
        recorder.count(thread, start.addr() as u64, length_bytes as u64);
        lines.into_iter().for_each(|lines| self.push(&mut recorder, Event::Flush { thread, lines }));
    }

    fn fence(&self) {
        let mut recorder = self.recorder();
        let thread = this_thread();
        if !self.is_done(&mut recorder, Step::Fence) {
            self.push(&mut recorder, Event::FenceLeftOut { thread });
            return;
        }
        recorder.counters.persists += u64::from(recorder.unfenced.remove(&thread).is_some());
        self.push(&mut recorder, Event::Fence { thread });
    }

    fn counters(&self) -> FlushCounters {
        self.recorder().counters
    }

    fn begin_new(&self) {
        let mut recorder = self.recorder();
        recorder.is_new = true;
        if self.is_one_of_several && recorder.attached_bytes > 0 {
            let history = std::mem::take(&mut recorder.history);
            recorder.earlier.push(history);
            recorder.attached_bytes = 0;
        }
    }

    unsafe fn attach(&self, base: *const u8, length_bytes: usize) {
        let mut recorder = self.recorder();
        let known = match recorder.memory {
            Some((address, known)) => {
                assert!(address == base.addr() && known <= length_bytes, "one Simulated medium serves one pool");
                known
            }
            None if self.is_one_of_several => recorder.attached_bytes,
            None => {
                recorder.history = History::default();
                0
            }
        };
        assert!(known <= length_bytes, "the pool that was attached before has become shorter");
        // SAFETY: readable, as the caller promises, and nobody writes the new part before it was attached.
        let new = unsafe { std::slice::from_raw_parts(base.add(known), length_bytes - known) };
        if !new.is_empty() {
            let mut content: Arc<[u8]> = new.into();
            let durable = if recorder.is_new { None } else { self.durable.get(known..) };
            if let (Some(durable), Some(content)) = (durable, Arc::get_mut(&mut content)) {
                let durable = &durable[..durable.len().min(content.len())];
                content[..durable.len()].copy_from_slice(durable);
            }
            self.push(&mut recorder, Event::Grow { content: content.clone() });
            // (Most pages are the same.)
            let pages = new.chunks(PAGE_BYTES).zip(content.chunks(PAGE_BYTES));
            for (start, (page, durable)) in (known as u64..).step_by(PAGE_BYTES).zip(pages).filter(|(_, (a, b))| a != b)
            {
                let lines = page.chunks(CACHE_LINE_BYTES as usize).zip(durable.chunks(CACHE_LINE_BYTES as usize));
                let lines = (start..).step_by(CACHE_LINE_BYTES as usize).zip(lines);
                for (offset, (line, _)) in lines.filter(|(_, (line, durable))| line != durable) {
                    self.push(&mut recorder, Event::Cached { offset, line: line.into() });
                }
            }
        }
        recorder.memory = Some((base.addr(), length_bytes));
        recorder.attached_bytes = length_bytes;
    }

    fn detach(&self) {
        self.recorder().memory = None;
    }
}

/// A small number for the calling thread.
fn this_thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local!(static NUMBER: u32 = NEXT.fetch_add(1, Ordering::Relaxed));
    turns::task().unwrap_or_else(|| NUMBER.with(|number| *number))
}
