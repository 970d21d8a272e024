//! Publication under loom.

use std::sync::Arc;

use slmdb_sync::model::{check, thread};

use crate::write::publication::*;

/// What a write fills in before it is complete.
struct Writes {
    publication: Publication,
    filled: [AtomicU64; 2],
}

impl Writes {
    fn write(&self, number: usize, ticket: Ticket) {
        self.filled[number].store(1, Ordering::Relaxed);
        self.publication.complete(ticket);
        let sequence = number as u64 + 1;
        self.publication.wait_for(sequence);
        self.check(sequence);
    }

    /// All that is published is filled in, and that is `least` at least.
    fn check(&self, least: u64) {
        let published = self.publication.published();
        assert!(published >= least, "{published} is published, {least} was before");
        for filled in &self.filled[..published as usize] {
            assert_eq!(filled.load(Ordering::Relaxed), 1, "a hole below {published}");
        }
    }
}

#[test]
fn loom_published_is_a_filled_prefix_and_every_wait_ends() {
    for reads in [true, false] {
        let name = if reads { "publication: two writers and a reader" } else { "publication: two writers" };
        check(name, if reads { 2 } else { 3 }, move || {
            let filled = [AtomicU64::new(0), AtomicU64::new(0)];
            let writes = Arc::new(Writes { publication: Publication::new(0), filled });
            let tickets = [1, 2].map(|sequence| writes.publication.begin(sequence));
            let spawn = |number: usize| {
                let writes = Arc::clone(&writes);
                thread::spawn(move || writes.write(number, tickets[number]))
            };
            let second = spawn(1);
            if reads {
                let first = spawn(0);
                writes.check(0);
                first.join().unwrap();
            } else {
                writes.write(0, tickets[0]);
            }
            second.join().unwrap();
            writes.check(2);
        });
    }
}
