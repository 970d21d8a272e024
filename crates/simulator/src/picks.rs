//! Which of the states that a crash could leave are looked at.
//!
//! Nothing, all, each change alone there, each alone missing, pairs, then whatever chance gives. Where there are few, all of
//! these; where there are many, samples of them.

mod text;

pub use text::CrashId;

use std::collections::HashSet;

use slmdb_pmem::simulated::{Choice, Pick as LinePick, Replay};

use crate::Random;
use crate::files::{Change, ChangeOf, Fate};
use crate::machine::{Image, Record};
use crate::oracle::Ending;

/// What of the stores to the pool that are not durable for sure is there. A number is the offset of a cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfPool {
    Nothing,
    All,
    /// All stores to this line, or these, and to no other.
    Only(u64, Option<u64>),
    /// All but those to this line, or these.
    AllBut(u64, Option<u64>),
    /// All but those to lines that were to be durable by a step that was left out.
    AllButOwed,
    /// All but those to lines that a thread has flushed and not fenced yet.
    AllButUnfenced,
    /// All to lines that had nothing to be made durable before this moment, and none to the others: as if the older ones had been
    /// forgotten.
    Since(u64),
    Random(u64),
}

/// What of the changes of files that no sync has covered is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfFiles {
    Nothing,
    All,
    Only(Change, Option<Change>),
    /// This fate for one, and all others are there.
    AllBut(Change, Fate),
    /// All are there but those that were to be durable by a sync that was left out.
    AllButOwed,
    /// All from this moment on are there, and none of those before.
    Since(u64),
    Random(u64),
}

/// One state that a crash could leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    pool: OfPool,
    files: OfFiles,
    /// How the machine goes down.
    pub ending: Ending,
}

impl Pick {
    /// A killed process.
    pub const KILL: Pick = Pick { pool: OfPool::All, files: OfFiles::All, ending: Ending::Kill };

    /// All is there, after a power cut.
    pub(crate) const EVERYTHING: Pick = Pick::cut(OfPool::All, OfFiles::All);

    const fn cut(pool: OfPool, files: OfFiles) -> Pick {
        Pick { pool, files, ending: Ending::PowerCut }
    }

    /// Whether it says something of both the pool and files, and they are not both whole or both lost.
    pub fn is_joint(&self) -> bool {
        !matches!((self.pool, self.files), (OfPool::Nothing, OfFiles::Nothing) | (OfPool::All, OfFiles::All))
    }

    /// The image.
    pub fn image(&self, record: &Record) -> Image {
        let of_pool = |pool: &Replay| {
            let all = LinePick { stores: usize::MAX, words: 0 };
            let none = LinePick { stores: 0, words: 0 };
            let mut random = Random(0);
            if let OfPool::Random(seed) = self.pool {
                random.0 = seed;
            }
            let missing: HashSet<u64> = match self.pool {
                OfPool::AllButOwed => pool.owed().collect(),
                OfPool::AllButUnfenced => pool.unfenced().into_iter().collect(),
                OfPool::Since(moment) => {
                    pool.pending_since().filter(|(_, since)| *since < moment).map(|(line, _)| line).collect()
                }
                _ => HashSet::new(),
            };
            pool.image_of(|line, stores| match self.pool {
                OfPool::Nothing => none,
                OfPool::All => all,
                OfPool::Only(one, other) if line == one || Some(line) == other => all,
                OfPool::Only(..) => none,
                OfPool::AllBut(one, other) if line == one || Some(line) == other => none,
                OfPool::AllBut(..) => all,
                OfPool::AllButOwed | OfPool::AllButUnfenced | OfPool::Since(_) => {
                    if missing.contains(&line) {
                        none
                    } else {
                        all
                    }
                }
                OfPool::Random(_) => LinePick {
                    stores: match random.below(4) {
                        0 => 0,
                        1 => stores,
                        _ => random.below(stores as u64 + 1) as usize,
                    },
                    words: (random.number() & random.number()) as u8,
                },
            })
        };
        let mut files = match self.files {
            OfFiles::All => record.files.everything(),
            OfFiles::Nothing => record.files.image(|_| Fate::Dropped),
            OfFiles::Only(one, other) => record.files.image(|change| match change == one || Some(change) == other {
                true => Fate::Kept,
                false => Fate::Dropped,
            }),
            OfFiles::AllBut(one, fate) => record.files.image(|change| if change == one { fate } else { Fate::Kept }),
            OfFiles::AllButOwed => {
                let owed: HashSet<Change> = record.files.owed().into_iter().collect();
                record.files.image(|change| if owed.contains(&change) { Fate::Dropped } else { Fate::Kept })
            }
            OfFiles::Since(moment) => {
                record.files.image(|change| if change.moment < moment { Fate::Dropped } else { Fate::Kept })
            }
            OfFiles::Random(seed) => {
                let mut random = Random(seed);
                record.files.image(|_| match random.below(8) {
                    0..=2 => Fate::Kept,
                    3..=5 => Fate::Dropped,
                    6 => Fate::Torn(random.number()),
                    _ if random.one_in(2) => Fate::Zeroed,
                    _ => Fate::Garbage(random.number()),
                })
            }
        };
        let is_killed = self.ending == Ending::Kill;
        let durable = is_killed.then(|| Box::new(Pick::cut(OfPool::Nothing, OfFiles::Nothing).image(record)));
        for pool in record.pools.iter().filter(|pool| pool.begin < record.moment) {
            if let Some(file) = pool.file {
                files.lay_over(file, &of_pool(&pool.replay), &pool.replay.image(Choice::Nothing));
            }
        }
        let device = record.pools.first().filter(|pool| pool.file.is_none());
        let mut pool = device.map(|pool| of_pool(&pool.replay)).unwrap_or_default();
        pool.extend_from_slice(record.device.get(pool.len()..).unwrap_or_default());
        Image { files, pool, durable }
    }

    /// What is looked at where the record stands, to see what leaving a step out has done: everything is there, or nothing, but
    /// for what that step should have made durable; of which all is missing, or one change alone. So many states at most; none
    /// if nothing is owed.
    pub fn without_owed(record: &Record, limit: usize, seed: u64) -> Vec<Pick> {
        let lines: Vec<u64> = record.pool().into_iter().flat_map(|pool| pool.owed()).collect();
        let changes = record.files.owed();
        let (mut picks, mut others, mut random) = (Vec::new(), Vec::new(), Random(seed));
        if !lines.is_empty() {
            picks.extend([OfFiles::All, OfFiles::Nothing].map(|files| Pick::cut(OfPool::AllButOwed, files)));
            others.extend(lines.iter().filter(|_| lines.len() > 1).map(|&line| {
                let files = any_files(&mut random);
                Pick::cut(OfPool::AllBut(line, None), files)
            }));
            // (What was stored after what is owed, to other lines, and by chance not all of it.)
            others.extend((0..2).map(|_| Pick::cut(OfPool::Random(random.number()), any_files(&mut random))));
        }
        if !changes.is_empty() {
            picks.extend([OfPool::All, OfPool::Nothing].map(|pool| Pick::cut(pool, OfFiles::AllButOwed)));
        }
        for &change in &changes {
            let fates = match change.of {
                ChangeOf::Content => vec![Fate::Dropped, Fate::Zeroed, Fate::Garbage(random.number())],
                ChangeOf::Length | ChangeOf::Name => vec![Fate::Dropped],
            };
            let pool = any_pool(&mut random);
            others.extend(fates.into_iter().map(|fate| Pick::cut(pool, OfFiles::AllBut(change, fate))));
        }
        picks.extend(sample(others, limit.saturating_sub(picks.len()), &mut random));
        picks
    }

    /// What is looked at where the record stands: so many states at most. Nothing and all come first, then what a step that is
    /// missing in the code leaves: of the pool all but what waits for a fence, and all but what nobody has made durable for long.
    pub fn all_at(record: &Record, limit: usize, seed: u64) -> Vec<Pick> {
        let lines: Vec<u64> = record.pool().into_iter().flat_map(|pool| pool.pending()).map(|(line, _)| line).collect();
        let changes = record.files.pending();
        let mut random = Random(seed);
        let mut picks = vec![Pick::cut(OfPool::Nothing, OfFiles::Nothing)];
        if !lines.is_empty() || !changes.is_empty() {
            picks.push(Pick::cut(OfPool::All, OfFiles::All));
        }
        let mut apart = vec![Pick::KILL];
        if !lines.is_empty() && !changes.is_empty() {
            apart.extend([Pick::cut(OfPool::All, OfFiles::Nothing), Pick::cut(OfPool::Nothing, OfFiles::All)]);
        }
        picks.extend(sample(apart, 2, &mut random));
        if let Some(pool) = record.pool() {
            let unfenced = pool.unfenced().len();
            if unfenced > 0 && unfenced < lines.len() {
                picks.push(Pick::cut(OfPool::AllButUnfenced, any_files(&mut random)));
            }
            let mut moments: Vec<u64> = pool.pending_since().map(|(_, since)| since).collect();
            moments.sort_unstable();
            moments.dedup();
            // (Behind the first: from there on there is all.)
            if let Some(count) = (moments.len() as u64).checked_sub(1).filter(|&count| count > 0) {
                picks.push(Pick::cut(OfPool::Since(moments[1 + random.below(count) as usize]), any_files(&mut random)));
            }
        }
        if changes.len() > 1 {
            let since = changes[1 + random.below(changes.len() as u64 - 1) as usize].moment;
            picks.push(Pick::cut(any_pool(&mut random), OfFiles::Since(since)));
        }
        let mut others = Vec::new();
        for (index, &line) in lines.iter().enumerate() {
            let second = |random: &mut Random| lines[random.below(lines.len() as u64) as usize];
            others.push(Pick::cut(OfPool::Only(line, None), any_files(&mut random)));
            others.push(Pick::cut(OfPool::AllBut(line, None), any_files(&mut random)));
            if index > 0 {
                others.push(Pick::cut(OfPool::Only(line, Some(second(&mut random))), any_files(&mut random)));
                others.push(Pick::cut(OfPool::AllBut(line, Some(second(&mut random))), any_files(&mut random)));
            }
        }
        for (index, &change) in changes.iter().enumerate() {
            let second = changes[random.below(changes.len() as u64) as usize];
            others.push(Pick::cut(any_pool(&mut random), OfFiles::Only(change, None)));
            others.push(Pick::cut(any_pool(&mut random), OfFiles::AllBut(change, Fate::Dropped)));
            if change.of == ChangeOf::Content {
                let fate = match random.below(3) {
                    0 => Fate::Zeroed,
                    1 => Fate::Garbage(random.number()),
                    _ => Fate::Torn(random.number()),
                };
                others.push(Pick::cut(any_pool(&mut random), OfFiles::AllBut(change, fate)));
            }
            if index > 0 {
                others.push(Pick::cut(any_pool(&mut random), OfFiles::Only(change, Some(second))));
            }
        }
        if others.len() > 2 {
            let by_chance = (others.len() / 2).clamp(1, 16);
            others.extend(
                (0..by_chance).map(|_| Pick::cut(OfPool::Random(random.number()), OfFiles::Random(random.number()))),
            );
        }
        picks.truncate(limit);
        picks.extend(sample(others, limit - picks.len(), &mut random));
        picks
    }
}

/// So many of these by chance, or all.
fn sample(mut picks: Vec<Pick>, limit: usize, random: &mut Random) -> Vec<Pick> {
    let count = limit.min(picks.len());
    (0..count).map(|_| picks.swap_remove(random.below(picks.len() as u64) as usize)).collect()
}

fn any_files(random: &mut Random) -> OfFiles {
    match random.below(3) {
        0 => OfFiles::Nothing,
        1 => OfFiles::All,
        _ => OfFiles::Random(random.number()),
    }
}

fn any_pool(random: &mut Random) -> OfPool {
    match random.below(3) {
        0 => OfPool::Nothing,
        1 => OfPool::All,
        _ => OfPool::Random(random.number()),
    }
}
