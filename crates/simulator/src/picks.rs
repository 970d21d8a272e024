//! Which of the states that a crash could leave are looked at.
//!
//! Nothing, all, each change alone there, each alone missing, pairs, then whatever chance gives. Where there are few, all of
//! these; where there are many, samples of them.

mod pick;
mod text;

pub use pick::Pick;
pub use text::CrashId;

use crate::Random;
use crate::files::{ChangeOf, Fate};
use crate::machine::Record;
use pick::{OfFiles, OfPool};

impl Pick {
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
