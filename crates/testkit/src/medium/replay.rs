//! Going through a record, and making crash images of it.
//!
//! Two copies of the pool go along: what is durable for sure, and what the processor sees. Between them, for each cache
//! line, stand the stores that may or may not have become durable. An image is the first copy with a prefix of these
//! applied to each line.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use slmdb_pmem::medium::CACHE_LINE_BYTES;

use super::history::{Event, History};
use crate::Random;

const LINE: usize = CACHE_LINE_BYTES as usize;

/// Goes through a [`History`] from the beginning to the end.
#[derive(Debug, Clone)]
pub struct Replay {
    history: History,
    /// How many events it has gone through.
    index: usize,
    /// The moment it stands at: events before it were gone through.
    moment: u64,
    /// What no crash takes back.
    durable: Vec<u8>,
    /// What the processor sees.
    seen: Vec<u8>,
    /// By line: the stores that are not durable for sure, in order.
    pending: BTreeMap<u64, VecDeque<LineStore>>,
    /// By thread: lines flushed and not fenced yet, with the moment of the flush.
    flushed: HashMap<u32, Vec<(u64, u64)>>,
    /// The same of lines that were to be flushed, and were not.
    not_flushed: HashMap<u32, Vec<(u64, u64)>>,
}

/// A store, or that part of one that lies in one cache line.
#[derive(Debug, Clone)]
struct LineStore {
    moment: u64,
    /// It would be durable, had not a flush or a fence been left out.
    is_owed: bool,
    /// Not even of a copy is a part there without the rest.
    is_whole: bool,
    /// Range within the line.
    from: usize,
    to: usize,
    bytes: [u8; LINE],
}

/// What of the stores that are not durable for sure a crash leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Nothing of them.
    Nothing,
    /// All of them: a kill of the process instead of a power cut.
    Everything,
    /// For each line a prefix by chance, sometimes with a part of the next copy; the same for the same seed and moment.
    Random(u64),
}

/// What of the stores to one line a crash leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// So many of them, from the first on; more than there are means all.
    pub stores: usize,
    /// Of the next one, if it is a copy made here, those of its eight words whose bits are set.
    pub words: u8,
}

impl History {
    /// Goes through it from the beginning.
    pub fn replay(self) -> Replay {
        Replay::new(self)
    }
}

impl Replay {
    fn new(history: History) -> Replay {
        let (durable, seen) = (Vec::new(), Vec::new());
        let (flushed, not_flushed) = (HashMap::new(), HashMap::new());
        Replay { history, index: 0, moment: 0, durable, seen, pending: BTreeMap::new(), flushed, not_flushed }
    }

    /// Where it stands. A crash here comes after the events before this moment and before the next.
    pub fn moment(&self) -> u64 {
        self.moment
    }

    /// Goes on until just before the next fence, or to the end of the record; `false` if it was there already. At each of
    /// these stops a crash may leave all that a crash since the stop before could.
    pub fn to_next_crash(&mut self) -> bool {
        if !self.step() {
            return false;
        }
        while !matches!(self.history.event(self.index), None | Some((_, Event::Fence { .. }))) {
            self.step();
        }
        true
    }

    /// Goes on to a moment, as [`Simulated::moment`](super::Simulated::moment) gave it, or to the end of the record.
    pub fn to_moment(&mut self, moment: u64) {
        while self.history.event(self.index).is_some_and(|&(at, _)| at < moment) {
            self.step();
        }
        self.moment = self.moment.max(moment.min(self.history.moment()));
    }

    /// The bytes of the pool after a crash here.
    pub fn image(&self, choice: Choice) -> Vec<u8> {
        match choice {
            Choice::Nothing => self.durable.clone(),
            Choice::Everything => self.seen.clone(),
            Choice::Random(seed) => {
                let mut random = Random(seed ^ self.moment.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                self.image_by(|_, stores| {
                    let count = stores.len();
                    let whole = match random.below(4) {
                        0 => 0,
                        1 => count,
                        _ => random.below(count as u64 + 1) as usize,
                    };
                    (whole, random.number() as u8 & random.number() as u8)
                })
            }
        }
    }

    /// Images of a crash here: all there are, if those of whole stores are at most `limit`; else nothing, everything, and
    /// as many at random as make up `limit`.
    pub fn images(&self, limit: u64, seed: u64) -> impl Iterator<Item = Vec<u8>> {
        let all = self.pending.values().try_fold(1_u64, |all, stores| all.checked_mul(stores.len() as u64 + 1));
        let exhaustive = all.filter(|&all| all <= limit.max(1));
        (0..exhaustive.unwrap_or(limit)).map(move |index| match (exhaustive, index) {
            (None, 0) => self.image(Choice::Nothing),
            (None, 1) => self.image(Choice::Everything),
            (None, _) => self.image(Choice::Random(seed.wrapping_add(index))),
            (Some(_), mut index) => self.image_by(|_, stores| {
                let options = stores.len() as u64 + 1;
                let whole = index % options;
                index /= options;
                (whole as usize, 0)
            }),
        })
    }

    /// Where stores are that are not durable for sure: the offset of each such cache line, and how many stores there are to
    /// it. After an operation that claims to be durable nothing it needs may be among them.
    pub fn pending(&self) -> impl Iterator<Item = (u64, usize)> {
        self.pending.iter().map(|(line, stores)| (line * CACHE_LINE_BYTES, stores.len()))
    }

    /// Where stores are that would be durable, had not a flush or a fence been left out: the offset of each such cache line. What
    /// leaving it out does is seen best where just these are missing.
    pub fn owed(&self) -> impl Iterator<Item = u64> {
        let owed = self.pending.iter().filter(|(_, stores)| stores.iter().any(|store| store.is_owed));
        owed.map(|(line, _)| line * CACHE_LINE_BYTES)
    }

    /// Where stores are that were flushed by a thread which has not fenced since: the offset of each such cache line. What should
    /// not have been stored before that fence is seen best where these are missing, and all else is there.
    pub fn unfenced(&self) -> BTreeSet<u64> {
        let flushed = self.flushed.values().flatten().map(|(line, _)| *line);
        flushed.filter(|line| self.pending.contains_key(line)).map(|line| line * CACHE_LINE_BYTES).collect()
    }

    /// Where stores are that are not durable for sure, each cache line with the moment of the first of these.
    pub fn pending_since(&self) -> impl Iterator<Item = (u64, u64)> {
        let first = |stores: &VecDeque<LineStore>| stores.front().map_or(0, |store| store.moment);
        self.pending.iter().map(move |(line, stores)| (line * CACHE_LINE_BYTES, first(stores)))
    }

    /// An image with this of each line: what is picked for the line at this offset, with so many stores that are not durable for
    /// sure.
    pub fn image_of(&self, mut pick: impl FnMut(u64, usize) -> Pick) -> Vec<u8> {
        self.image_by(|line, stores| {
            let Pick { stores, words } = pick(line * CACHE_LINE_BYTES, stores.len());
            (stores, words)
        })
    }

    /// An image with, for each line, so many whole stores, and those words of the next one whose bits are set.
    fn image_by(&self, mut choose: impl FnMut(u64, &VecDeque<LineStore>) -> (usize, u8)) -> Vec<u8> {
        let mut image = self.durable.clone();
        for (&line, stores) in &self.pending {
            let (whole, words) = choose(line, stores);
            let bytes = line_of(&mut image, line);
            if whole >= stores.len() {
                bytes.copy_from_slice(&self.seen[line as usize * LINE..][..LINE]);
                continue;
            }
            stores.iter().take(whole).for_each(|store| store.apply(bytes));
            // (If the next one stores a single word, then it is there whole or not at all.)
            stores[whole].apply_words(bytes, words);
        }
        image
    }

    /// Goes through one event; `false` at the end.
    fn step(&mut self) -> bool {
        let Some((at, event)) = self.history.event(self.index).cloned() else {
            self.moment = self.history.moment();
            return false;
        };
        self.index += 1;
        self.moment = at + 1;
        match event {
            Event::Grow { content } => {
                self.durable.extend_from_slice(&content);
                self.seen.extend_from_slice(&content);
            }
            Event::Store { offset, value } => self.store(offset, &value.to_le_bytes(), false),
            Event::Copy { offset, bytes } => self.store(offset, &bytes, false),
            // The order of the stores to it isn't known any more, so no part of them is picked.
            Event::Cached { offset, line } => self.store(offset, &line, true),
            Event::Zero { offset, length_bytes } => self.store(offset, &vec![0; length_bytes as usize], false),
            Event::Flush { thread, lines } => {
                let flushed = self.flushed.entry(thread).or_default();
                flushed.extend(self.pending.range(lines).map(|(&line, _)| (line, self.moment)));
            }
            Event::FlushLeftOut { thread, lines } => {
                let not_flushed = self.not_flushed.entry(thread).or_default();
                not_flushed.extend(self.pending.range(lines).map(|(&line, _)| (line, self.moment)));
            }
            Event::Fence { thread } => {
                for (line, moment) in self.flushed.remove(&thread).unwrap_or_default() {
                    self.make_durable(line, moment);
                }
                for (line, moment) in self.not_flushed.remove(&thread).unwrap_or_default() {
                    self.owe(line, moment);
                }
            }
            Event::FenceLeftOut { thread } => {
                for (line, moment) in self.flushed.get(&thread).cloned().unwrap_or_default() {
                    self.owe(line, moment);
                }
            }
        }
        true
    }

    fn store(&mut self, offset: u64, bytes: &[u8], is_whole: bool) {
        let start = offset as usize;
        self.seen[start..start + bytes.len()].copy_from_slice(bytes);
        let mut done = 0;
        while done < bytes.len() {
            let from = (start + done) % LINE;
            let to = (from + bytes.len() - done).min(LINE);
            let mut store = LineStore { moment: self.moment, is_owed: false, is_whole, from, to, bytes: [0; LINE] };
            store.bytes[from..to].copy_from_slice(&bytes[done..done + to - from]);
            self.pending.entry(((start + done) / LINE) as u64).or_default().push_back(store);
            done += to - from;
        }
    }

    /// What was stored to a line up to a moment is durable now.
    fn make_durable(&mut self, line: u64, moment: u64) {
        let Some(stores) = self.pending.get_mut(&line) else { return };
        let bytes = line_of(&mut self.durable, line);
        while stores.front().is_some_and(|store| store.moment <= moment) {
            if let Some(store) = stores.pop_front() {
                store.apply(bytes);
            }
        }
        if stores.is_empty() {
            self.pending.remove(&line);
        }
    }

    /// What was stored to a line up to a moment should be durable now, and is not.
    fn owe(&mut self, line: u64, moment: u64) {
        let stores = self.pending.get_mut(&line).into_iter().flatten();
        stores.take_while(|store| store.moment <= moment).for_each(|store| store.is_owed = true);
    }
}

impl LineStore {
    fn apply(&self, line: &mut [u8]) {
        line[self.from..self.to].copy_from_slice(&self.bytes[self.from..self.to]);
    }

    fn apply_words(&self, line: &mut [u8], words: u8) {
        if self.is_whole {
            return;
        }
        for word in (0..8).filter(|word| words & 1 << word != 0) {
            let (from, to) = (self.from.max(8 * word), self.to.min(8 * word + 8));
            if from < to {
                line[from..to].copy_from_slice(&self.bytes[from..to]);
            }
        }
    }
}

fn line_of(image: &mut [u8], line: u64) -> &mut [u8] {
    &mut image[line as usize * LINE..][..LINE]
}
