//! [`Garbage`]: nodes that nothing leads to any more, until no reader is left that could have met them.
//!
//! The writer keeps lists of them. What is put off until all guards are gone is one store, which tells him that a list is free:
//! so their memory comes back to him, wherever the last reader was.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use slmdb_sync::epoch;
use slmdb_sync::modelled::AtomicU64;
use slmdb_sync::scheduled::{Instant, thread};

use super::slab::Slab;

const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// A piece of memory, with the length that it was taken for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub address: usize,
    pub bytes: u32,
}

impl Piece {
    pub fn new(base: NonNull<u8>, bytes: usize) -> Piece {
        Piece { address: base.as_ptr().expose_provenance(), bytes: bytes as u32 }
    }

    /// # Safety
    ///
    /// It was taken from this slab, and nobody uses it any more.
    pub unsafe fn give_back(self, slab: &mut Slab) {
        if let Some(base) = NonNull::new(std::ptr::with_exposed_provenance_mut(self.address)) {
            // SAFETY: as the caller says.
            unsafe { slab.give_back(base, self.bytes as usize) };
        }
    }
}

/// What waits for readers.
#[derive(Debug, Default)]
pub(super) struct Garbage {
    /// Unlinked since the last list was closed.
    pieces: Vec<Piece>,
    lists: VecDeque<List>,
    bytes: usize,
}

#[derive(Debug)]
struct List {
    is_free: Arc<AtomicU64>,
    pieces: Vec<Piece>,
}

impl Garbage {
    /// A piece that nothing leads to any more.
    pub fn push(&mut self, piece: Piece) {
        self.bytes += piece.bytes as usize;
        self.pieces.push(piece);
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Closes the list of what was unlinked.
    pub fn close(&mut self) {
        if self.pieces.is_empty() {
            return;
        }
        let is_free = Arc::new(AtomicU64::new(0));
        self.lists.push_back(List { is_free: Arc::clone(&is_free), pieces: std::mem::take(&mut self.pieces) });
        let guard = epoch::pin();
        guard.defer(move || is_free.store(1, Release));
        guard.flush();
    }

    /// Gives back what no reader can have any more.
    pub fn collect(&mut self, slab: &mut Slab) {
        while self.lists.front().is_some_and(|list| list.is_free.load(Acquire) == 1) {
            for piece in self.lists.pop_front().map(|list| list.pieces).unwrap_or_default() {
                self.bytes -= piece.bytes as usize;
                // SAFETY: it was unlinked before the list was closed, and all guards from then are gone. Acquire: so are their loads.
                unsafe { piece.give_back(slab) };
            }
        }
    }

    /// Waits until no more than so many bytes wait, but no longer than `patience`. REQUIRES: this thread has no guard.
    pub fn wait(&mut self, slab: &mut Slab, bytes_max: usize, patience: Duration) {
        if self.bytes <= bytes_max {
            return;
        }
        self.close();
        let start = Instant::now();
        loop {
            epoch::pin().flush();
            self.collect(slab);
            if self.bytes <= bytes_max || start.elapsed() >= patience {
                return;
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}
