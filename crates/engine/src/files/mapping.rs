//! Whether table files are mapped for reading.
//!
//! Mapped files are read quicker, as long as they are in memory. What doesn't fit there is better read by calls: those wait for a
//! device once where faults wait for each page, and the system knows better which pages to keep. So the files of a store are
//! mapped, all or none, while they take at most half of the [memory that the system could give](slmdb_env::Env::memory_to_give_bytes);
//! others want some of it, too. A store whose files are mapped may take five eighths before that ends, so that it does not come and go.
//!
//! What is mapped may leave memory all the same, when others want it. Reading it from the mapping would wait then, for page after page. So
//! which parts are in memory is [doubted](slmdb_env::Mapped::doubt) every few looks.
//!
//! It is looked at when files are opened, when they have become more or fewer, and now and then by those who read. The system is asked
//! once a second at most, since that reads some files.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

use slmdb_env::Env;
use slmdb_sync::scheduled::atomic::{AtomicBool, AtomicU64};

/// Whether table files are mapped for reading where they fit in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MapTables {
    /// While all of them take at most half of what the system could give.
    #[default]
    Auto,
    /// Not at all.
    Never,
}

/// How long what was found out holds, in nanoseconds.
const HOLDS_NS: u64 = 1_000_000_000;
/// What is in memory is doubted at one in so many looks.
const LOOKS_PER_DOUBT: u64 = 8;
/// A thread that reads looks at the clock once for so many reads.
const READS_PER_LOOK: u32 = 4096;

thread_local! {
    /// How many reads this thread has still to do before it looks.
    static READS_TO_PASS: Cell<u32> = const { Cell::new(READS_PER_LOOK) };
}

/// What is known of a store's files and the memory that they may take; see the module.
#[derive(Debug)]
pub struct Mapping {
    wanted: MapTables,
    is_on: AtomicBool,
    /// Of all table files.
    table_bytes: AtomicU64,
    /// How much memory the system could give when it was last asked; 0 if it doesn't tell.
    memory_bytes: AtomicU64,
    /// When it is to be asked again, in nanoseconds.
    next_look_ns: AtomicU64,
    looks: AtomicU64,
}

/// What a look has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing new.
    NothingNew,
    /// Files are to be mapped, or not to be mapped any more.
    Changed,
    /// Nothing new; but what was in memory is to be doubted.
    Doubt,
}

impl Mapping {
    /// As wanted; nothing is known yet.
    pub fn new(wanted: MapTables) -> Mapping {
        let [table_bytes, memory_bytes, next_look_ns, looks] = std::array::from_fn(|_| AtomicU64::new(0));
        Mapping { wanted, is_on: AtomicBool::new(false), table_bytes, memory_bytes, next_look_ns, looks }
    }

    /// Whether files are mapped now.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// All table files together have this length now.
    pub fn set_table_bytes(&self, bytes: u64) {
        self.table_bytes.store(bytes, Relaxed);
    }

    /// Whether a thread that reads is to [look](Mapping::look); one in some thousand reads.
    #[inline]
    pub fn is_to_look(&self) -> bool {
        READS_TO_PASS.with(|reads| {
            let left = reads.get();
            reads.set(if left == 0 { READS_PER_LOOK } else { left - 1 });
            left == 0
        })
    }

    /// Looks whether the files fit; asks the system for that if it was not asked a moment ago.
    pub fn look(&self, env: &dyn Env) -> Found {
        if self.wanted == MapTables::Never {
            return Found::NothingNew;
        }
        let (now_ns, next_ns) = (env.monotonic_ns(), self.next_look_ns.load(Relaxed));
        let is_due = now_ns >= next_ns
            && self.next_look_ns.compare_exchange(next_ns, now_ns + HOLDS_NS, Relaxed, Relaxed).is_ok();
        if is_due {
            self.memory_bytes.store(env.memory_to_give_bytes().unwrap_or(0), Relaxed);
        }
        let (was_on, memory_bytes) = (self.is_on(), self.memory_bytes.load(Relaxed));
        let most_bytes = if was_on { memory_bytes / 8 * 5 } else { memory_bytes / 2 };
        let is_on = memory_bytes > 0 && self.table_bytes.load(Relaxed) <= most_bytes;
        if is_on != was_on {
            self.is_on.store(is_on, Relaxed);
            return Found::Changed;
        }
        let is_doubtful = is_due && is_on && self.looks.fetch_add(1, Relaxed) % LOOKS_PER_DOUBT == LOOKS_PER_DOUBT - 1;
        if is_doubtful { Found::Doubt } else { Found::NothingNew }
    }
}

#[cfg(test)]
mod tests {
    use slmdb_env::memory::MemoryEnv;

    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn files_are_mapped_while_they_take_half_of_the_memory() {
        let (env, mapping) = (MemoryEnv::new(), Mapping::new(MapTables::Auto));
        let is_on_with = |table_bytes, memory_bytes| {
            env.set_memory_to_give(memory_bytes);
            mapping.set_table_bytes(table_bytes);
            env.advance_clock(HOLDS_NS);
            let was_on = mapping.is_on();
            let found = mapping.look(&env);
            assert_eq!(found == Found::Changed, was_on != mapping.is_on());
            mapping.is_on()
        };
        assert!(is_on_with(GIB, Some(2 * GIB)));
        assert!(is_on_with(5 * GIB, Some(8 * GIB)));
        assert!(!is_on_with(5 * GIB + 1, Some(8 * GIB)));
        assert!(!is_on_with(5 * GIB, Some(8 * GIB)), "not again before it is half");
        assert!(is_on_with(4 * GIB, Some(8 * GIB)));
        assert!(!is_on_with(4 * GIB, Some(4 * GIB)));
        assert!(is_on_with(0, Some(1)));
        assert!(!is_on_with(0, None));
    }

    #[test]
    fn it_is_looked_at_once_a_second() {
        let (env, mapping) = (MemoryEnv::new(), Mapping::new(MapTables::Auto));
        assert!(mapping.look(&env) == Found::Changed && mapping.is_on());
        env.set_memory_to_give(Some(100));
        mapping.set_table_bytes(100);
        assert!(mapping.look(&env) == Found::NothingNew && mapping.is_on());
        env.advance_clock(HOLDS_NS);
        assert!(mapping.look(&env) == Found::Changed && !mapping.is_on());
        mapping.set_table_bytes(50);
        assert!(mapping.look(&env) == Found::Changed && mapping.is_on(), "how long the files are is known at once");
        let looks = (0..3 * READS_PER_LOOK + 3).filter(|_| mapping.is_to_look()).count();
        assert_eq!(looks, 3);
    }

    #[test]
    fn who_wants_no_mappings_gets_none() {
        let (env, mapping) = (MemoryEnv::new(), Mapping::new(MapTables::Never));
        env.advance_clock(HOLDS_NS);
        assert!(mapping.look(&env) == Found::NothingNew && !mapping.is_on());
    }

    #[test]
    fn what_is_in_memory_is_doubted_now_and_then() {
        let (env, mapping) = (MemoryEnv::new(), Mapping::new(MapTables::Auto));
        let doubts = (0..4 * LOOKS_PER_DOUBT).filter(|_| {
            env.advance_clock(HOLDS_NS);
            mapping.look(&env) == Found::Doubt
        });
        assert_eq!(doubts.count(), 3, "one in eight, from when they are mapped on");
    }
}
