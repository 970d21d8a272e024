//! [`Pick`]: one of the states that a crash could leave, and its image.

use std::collections::HashSet;

use slmdb_testkit::medium::{Choice, Pick as LinePick, Replay};

use crate::Random;
use crate::files::{Change, Fate};
use crate::machine::{Image, Record};
use crate::oracle::Ending;

/// What of the stores to the pool that are not durable for sure is there. A number is the offset of a cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfPool {
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
pub(super) enum OfFiles {
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
    pub(super) pool: OfPool,
    pub(super) files: OfFiles,
    /// How the machine goes down.
    pub ending: Ending,
}

impl Pick {
    /// A killed process.
    pub const KILL: Pick = Pick { pool: OfPool::All, files: OfFiles::All, ending: Ending::Kill };

    /// All is there, after a power cut.
    pub(crate) const EVERYTHING: Pick = Pick::cut(OfPool::All, OfFiles::All);

    pub(super) const fn cut(pool: OfPool, files: OfFiles) -> Pick {
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
}
