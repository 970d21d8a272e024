//! Group sync under loom.

use std::sync::Arc;

use slmdb_sync::model::{check, thread};

use crate::write::group_commit::*;

#[test]
fn loom_who_returns_is_synced_and_nobody_waits_for_ever() {
    check("group sync: two callers", 3, || {
        // What is published, and what the device has.
        let state = Arc::new((GroupSync::new(0), AtomicU64::new(0), AtomicU64::new(0)));
        let call = |state: &(GroupSync, AtomicU64, AtomicU64)| {
            let (group, published, device) = state;
            let mine = published.fetch_add(1, Ordering::AcqRel) + 1;
            let sync = || {
                device.fetch_max(published.load(Ordering::Acquire), Ordering::Relaxed);
                Ok(())
            };
            group.through(mine, || published.load(Ordering::Acquire), || 0, sync).unwrap();
            assert!(group.synced() >= mine && device.load(Ordering::Relaxed) >= mine);
        };
        let other = Arc::clone(&state);
        let caller = thread::spawn(move || call(&other));
        call(&state);
        caller.join().unwrap();
    });
}
