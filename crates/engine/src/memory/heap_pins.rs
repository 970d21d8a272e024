//! [`Fences`]: what lets memory that a background thread has allocated go back to the system once it is free.
//!
//! glibc gives each thread a heap of its own. When it is asked to give free memory back (`malloc_trim`), it gives whole
//! free pages between what is in use, in every heap; but what is free at the *end* of a heap it keeps for that heap's
//! thread, if it is less than a threshold that grows with the largest block the process has ever freed, to 64 MiB. All that
//! the index thread has at the end of its heap may be the map of replaced records: tens of MiB, which nobody needs once the
//! last cursor is gone.
//!
//! So the last of what the thread has allocated for the map, a single key, is kept when the map goes. What is free before it is not at
//! the end of the heap. A heap is 64 MiB long; a thread that needs more has several, and a key is kept for each. Other allocators
//! lose nothing by it.

use std::sync::Arc;
use std::thread::ThreadId;

/// How long glibc's heaps are, and how they are aligned, in bytes.
const HEAP_BYTES: usize = 64 << 20;

/// Of each thread that has added keys, the one that lies last in each of its heaps. (There are two such threads: one adds what a flush
/// replaces in the index, the other what snapshots see of it.)
#[derive(Debug, Default)]
pub struct Fences(Vec<(ThreadId, Arc<[u8]>)>);

impl Fences {
    /// The calling thread has just allocated this key.
    pub fn keep_if_last(&mut self, key: &Arc<[u8]>) {
        let own = std::thread::current().id();
        let is_same = |(thread, last): &&mut (ThreadId, Arc<[u8]>)| *thread == own && heap(last) == heap(key);
        match self.0.iter_mut().find(is_same) {
            None => self.0.push((own, key.clone())),
            Some((_, last)) if key.as_ptr() > last.as_ptr() => *last = key.clone(),
            Some(_) => {}
        }
    }
}

/// Which heap a key lies in, if it is one of glibc's.
fn heap(key: &Arc<[u8]>) -> usize {
    key.as_ptr() as usize / HEAP_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_key_of_each_thread_in_each_heap_is_kept() {
        let mut fences = Fences::default();
        let keys: Vec<Arc<[u8]>> = (0..100_u8).map(|number| [number; 50].into()).collect();
        keys.iter().for_each(|key| fences.keep_if_last(key));
        std::thread::scope(|scope| scope.spawn(|| fences.keep_if_last(&keys[0])).join().unwrap());
        let mut last = std::collections::BTreeMap::new();
        for key in &keys {
            last.entry(heap(key)).and_modify(|at| *at = key.as_ptr().max(*at)).or_insert(key.as_ptr());
        }
        let mut expected: Vec<*const u8> = last.into_values().chain([keys[0].as_ptr()]).collect();
        let mut kept: Vec<*const u8> = fences.0.iter().map(|(_, key)| key.as_ptr()).collect();
        expected.sort_unstable();
        kept.sort_unstable();
        assert_eq!(kept, expected);
    }
}
