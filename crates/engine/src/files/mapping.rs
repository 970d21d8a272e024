//! [`Mapping`]: decides whether table files are mapped for reading.
//!
//! Mapped files are read quicker as long as they are in memory. Files that don't fit there are better read by calls:
//! a call waits for the device once, where page faults wait for each page. So all files of a store are mapped, or
//! none. They are mapped while they take at most half of the [memory that the system could
//! give](slmdb_env::Env::memory_to_give_bytes), and until they take more than five eighths of it. The gap keeps a
//! store from changing back and forth.
//!
//! Other programs may push mapped pages out of memory all the same. Reading them would then wait page after page. So
//! the store [doubts](slmdb_env::Mapped::doubt) every few looks which parts are in memory, and finds out again.
//!
//! A look is taken when files are opened, when their total length changes, and now and then by readers. The system is
//! asked once a second at most, since asking reads some files.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

use slmdb_env::Env;
use slmdb_sync::scheduled::atomic::{AtomicBool, AtomicU64};

/// Whether table files are mapped for reading where they fit in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MapTables {
    /// While all of them take at most half of the memory that the system could give.
    #[default]
    Auto,
    /// Never.
    Never,
}

/// How long the system's answer holds, in nanoseconds.
const HOLDS_NS: u64 = 1_000_000_000;
/// One in this many looks doubts what is in memory.
const LOOKS_PER_DOUBT: u64 = 8;
/// A reading thread looks at the clock once in this many reads.
const READS_PER_LOOK: u32 = 4096;

thread_local! {
    /// How many reads this thread does before it looks again.
    static READS_TO_PASS: Cell<u32> = const { Cell::new(READS_PER_LOOK) };
}

/// Decides whether table files are mapped for reading.
#[derive(Debug)]
pub struct Mapping {
    wanted: MapTables,
    is_on: AtomicBool,
    /// Bytes of all table files.
    table_bytes: AtomicU64,
    /// The memory that the system could give when it was last asked, in bytes. 0: it does not say.
    memory_bytes: AtomicU64,
    /// When to ask it again, in nanoseconds.
    next_look_ns: AtomicU64,
    looks: AtomicU64,
}

/// The result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing has changed.
    NothingNew,
    /// Files should be mapped from now on, or no longer.
    Changed,
    /// Nothing has changed, but the caller should find out again which parts are in memory.
    Doubt,
}

impl Mapping {
    /// Files are not mapped before the first look.
    pub fn new(wanted: MapTables) -> Mapping {
        let [table_bytes, memory_bytes, next_look_ns, looks] = std::array::from_fn(|_| AtomicU64::new(0));
        Mapping { wanted, is_on: AtomicBool::new(false), table_bytes, memory_bytes, next_look_ns, looks }
    }

    /// Whether files are mapped now.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Sets the bytes of all table files.
    pub fn set_table_bytes(&self, bytes: u64) {
        self.table_bytes.store(bytes, Relaxed);
    }

    /// Counts a read of this thread. Returns whether the thread should [look](Mapping::look) now.
    #[inline]
    pub fn is_to_look(&self) -> bool {
        READS_TO_PASS.with(|reads| {
            let left = reads.get();
            reads.set(if left == 0 { READS_PER_LOOK } else { left - 1 });
            left == 0
        })
    }

    /// Decides again whether the files fit into memory. Asks the system only if its last answer no longer holds.
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
    use slmdb_testkit::MemoryEnv;

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
