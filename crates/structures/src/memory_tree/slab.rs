//! [`Slab`]: memory for nodes of exact length. One owner, who says of each piece how long it is when he gives it back.
//!
//! Lengths are rounded up to classes: multiples of 16 bytes up to 1 KiB, of 64 above. A class takes *runs* of 64 KiB, which are
//! pieces of chunks. The lowest run of a class that has room is used first, so that high ones become empty. An empty run serves any class,
//! and a chunk of empty runs goes back to the system. What is longer than 16 KiB has a chunk of its own.
//!
//! A run begins with its header. Its free pieces are a list, linked through their first words; those behind `fresh` were never used.

#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use slmdb_env::{Error, Result};

use super::chunks::{CHUNK_ALIGNMENT_BYTES, CHUNK_BYTES, ChunkSource};
use super::place::WIDE_BYTES;

pub(super) const RUN_BYTES: usize = 64 << 10;
/// Bytes of a run's header; pieces follow.
pub(super) const RUN_HEADER_BYTES: usize = 64;
/// What is longer has a chunk of its own.
const PIECE_BYTES_MAX: usize = RUN_BYTES / 4;
const FINE_BYTES_MAX: usize = 1 << 10;
const FINE_BYTES: usize = 16;
const COARSE_BYTES: usize = 64;
const CLASSES: usize = FINE_BYTES_MAX / FINE_BYTES + (PIECE_BYTES_MAX - FINE_BYTES_MAX) / COARSE_BYTES + 1;
/// A chunk of one node is a multiple of this.
const LARGE_STEP_BYTES: usize = 4 << 10;

const _: () = assert!(size_of::<Run>() <= RUN_HEADER_BYTES && RUN_BYTES == CHUNK_ALIGNMENT_BYTES);

/// The header of a run that is in use.
#[derive(Debug)]
#[repr(C)]
struct Run {
    /// The first free piece; 0: none.
    free: usize,
    /// Where pieces begin that were never used, in bytes from the run's beginning.
    fresh: usize,
    /// How many pieces are in use.
    live: usize,
    /// Whether what lies here is to be moved.
    is_left: bool,
}

impl Run {
    fn has_room(&self, piece_bytes: usize) -> bool {
        self.free != 0 || self.fresh + piece_bytes <= RUN_BYTES
    }
}

#[derive(Debug)]
struct Chunk {
    length_bytes: usize,
    empty_bytes: usize,
}

/// Memory for nodes.
#[derive(Debug)]
pub(super) struct Slab {
    source: Arc<dyn ChunkSource>,
    /// Of each class the runs with room.
    open: Vec<BTreeSet<usize>>,
    /// Of each class all runs.
    runs: Vec<BTreeSet<usize>>,
    empty: BTreeSet<usize>,
    chunks: BTreeMap<usize, Chunk>,
    /// Bytes of all of these.
    chunk_bytes: usize,
    /// The chunks of one node, with their lengths.
    large: BTreeMap<usize, usize>,
    large_bytes: usize,
    live_bytes: usize,
    /// So many free bytes were left when nodes were moved last, or it was not worth it.
    tidied_free_bytes: usize,
}

/// The length of the piece that so many bytes get.
fn piece_bytes(bytes: usize) -> usize {
    let step_bytes = if bytes <= FINE_BYTES_MAX {
        FINE_BYTES
    } else if bytes <= PIECE_BYTES_MAX {
        COARSE_BYTES
    } else {
        LARGE_STEP_BYTES
    };
    bytes.max(1).next_multiple_of(step_bytes)
}

fn class(piece_bytes: usize) -> usize {
    if piece_bytes <= FINE_BYTES_MAX {
        piece_bytes / FINE_BYTES
    } else {
        FINE_BYTES_MAX / FINE_BYTES + (piece_bytes - FINE_BYTES_MAX) / COARSE_BYTES
    }
}

impl Slab {
    pub fn new(source: Arc<dyn ChunkSource>) -> Slab {
        Slab {
            source,
            open: (0..CLASSES).map(|_| BTreeSet::new()).collect(),
            runs: (0..CLASSES).map(|_| BTreeSet::new()).collect(),
            empty: BTreeSet::new(),
            chunks: BTreeMap::new(),
            chunk_bytes: 0,
            large: BTreeMap::new(),
            large_bytes: 0,
            live_bytes: 0,
            tidied_free_bytes: 0,
        }
    }

    /// One with the same source, for another thread.
    pub fn another(&self) -> Slab {
        Slab::new(Arc::clone(&self.source))
    }

    /// Whether another has the same source.
    pub fn has_source_of(&self, other: &Slab) -> bool {
        Arc::ptr_eq(&self.source, &other.source)
    }

    /// Bytes taken from the system.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes + self.large_bytes
    }

    /// Bytes of pieces in use.
    pub fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    /// Memory of so many bytes, whatever is in it, aligned to 16. An error that [may be tried
    /// again](Error::may_be_tried_again) if the system has none.
    pub fn take(&mut self, bytes: usize) -> Result<NonNull<u8>> {
        let piece_bytes = piece_bytes(bytes);
        if piece_bytes > PIECE_BYTES_MAX {
            return self.take_large(piece_bytes);
        }
        let class = class(piece_bytes);
        let run = match self.open[class].first() {
            Some(&run) => run,
            None => self.begin_run(class)?,
        };
        let header = self.header(run);
        header.live += 1;
        let piece = match header.free {
            0 => {
                header.fresh += piece_bytes;
                run + header.fresh - piece_bytes
            }
            free => {
                // SAFETY: a free piece of a run of ours; its first word is the next one.
                header.free = unsafe { pointer(free).cast::<usize>().read() };
                free
            }
        };
        if !header.has_room(piece_bytes) {
            self.open[class].remove(&run);
        }
        self.live_bytes += piece_bytes;
        NonNull::new(pointer(piece)).ok_or_else(no_memory)
    }

    /// Takes back memory that [`Slab::take`] gave for so many bytes.
    ///
    /// # Safety
    ///
    /// It did, and nobody uses it any more.
    pub unsafe fn give_back(&mut self, piece: NonNull<u8>, bytes: usize) {
        let piece_bytes = piece_bytes(bytes);
        self.live_bytes -= piece_bytes;
        let address = piece.as_ptr().expose_provenance();
        if piece_bytes > PIECE_BYTES_MAX {
            self.large.remove(&address);
            self.large_bytes -= piece_bytes;
            // SAFETY: it came from the source with this length.
            unsafe { self.source.give_back(piece, piece_bytes) };
            return;
        }
        let (class, run) = (class(piece_bytes), run_of(address));
        let header = self.header(run);
        // SAFETY: the piece is ours again, and has room for a word.
        unsafe { piece.cast::<usize>().write(header.free) };
        header.free = address;
        header.live -= 1;
        let (is_empty, is_left) = (header.live == 0, header.is_left);
        if is_empty {
            self.open[class].remove(&run);
            self.runs[class].remove(&run);
            self.end_run(run);
        } else if !is_left {
            self.open[class].insert(run);
        }
    }

    fn take_large(&mut self, piece_bytes: usize) -> Result<NonNull<u8>> {
        let piece = self.source.take(piece_bytes).ok_or_else(no_memory)?;
        self.large.insert(piece.as_ptr().expose_provenance(), piece_bytes);
        self.large_bytes += piece_bytes;
        self.live_bytes += piece_bytes;
        Ok(piece)
    }

    /// The header of a run in use, which belongs to this slab alone.
    fn header(&mut self, run: usize) -> &mut Run {
        // SAFETY: a run in use begins with its header, and all runs are of chunks that this slab alone has.
        unsafe { &mut *pointer(run).cast::<Run>() }
    }

    fn begin_run(&mut self, class: usize) -> Result<usize> {
        if self.empty.is_empty() {
            // As much as there is already.
            let length_bytes = self.chunk_bytes.next_power_of_two().clamp(RUN_BYTES, CHUNK_BYTES);
            let chunk = self.source.take(length_bytes).ok_or_else(no_memory)?.as_ptr().expose_provenance();
            self.chunks.insert(chunk, Chunk { length_bytes, empty_bytes: length_bytes });
            self.chunk_bytes += length_bytes;
            self.empty.extend((chunk..chunk + length_bytes).step_by(RUN_BYTES));
        }
        let run = self.empty.pop_first().ok_or_else(no_memory)?;
        if let Some((_, chunk)) = self.chunks.range_mut(..=run).next_back() {
            chunk.empty_bytes -= RUN_BYTES;
        }
        // SAFETY: the run is ours, unused, and aligned to its length.
        unsafe { pointer(run).cast::<Run>().write(Run { free: 0, fresh: RUN_HEADER_BYTES, live: 0, is_left: false }) };
        self.open[class].insert(run);
        self.runs[class].insert(run);
        Ok(run)
    }

    /// A run has become empty.
    fn end_run(&mut self, run: usize) {
        self.empty.insert(run);
        let Some((&begin, chunk)) = self.chunks.range_mut(..=run).next_back() else { return };
        chunk.empty_bytes += RUN_BYTES;
        let length_bytes = chunk.length_bytes;
        if chunk.empty_bytes == length_bytes {
            self.chunks.remove(&begin);
            self.chunk_bytes -= length_bytes;
            for run in (begin..begin + length_bytes).step_by(RUN_BYTES) {
                self.empty.remove(&run);
            }
            self.give_chunk_back(begin, length_bytes);
        }
    }

    fn give_chunk_back(&self, chunk: usize, length_bytes: usize) {
        if let Some(chunk) = NonNull::new(pointer(chunk)) {
            // SAFETY: it came from the source with this length, and nothing in it is in use.
            unsafe { self.source.give_back(chunk, length_bytes) };
        }
    }

    /// Takes over all that another slab of the same source has.
    pub fn absorb(&mut self, mut other: Slab) {
        self.open.iter_mut().zip(&mut other.open).for_each(|(to, from)| to.append(from));
        self.runs.iter_mut().zip(&mut other.runs).for_each(|(to, from)| to.append(from));
        self.empty.append(&mut other.empty);
        self.chunks.append(&mut other.chunks);
        self.chunk_bytes += std::mem::take(&mut other.chunk_bytes);
        self.large.append(&mut other.large);
        self.large_bytes += std::mem::take(&mut other.large_bytes);
        self.live_bytes += std::mem::take(&mut other.live_bytes);
    }

    /// Whether the piece at an address is to be moved.
    ///
    /// # Safety
    ///
    /// It is in use, and was taken from this slab for so many bytes.
    pub unsafe fn is_left(&mut self, piece: NonNull<u8>, bytes: usize) -> bool {
        piece_bytes(bytes) <= PIECE_BYTES_MAX && self.header(run_of(piece.addr().get())).is_left
    }

    /// Whether more than one of so many parts of the chunks is free, more than a chunk, and clearly more than when it was tidied
    /// last.
    pub fn is_untidy(&mut self, free_part: usize) -> bool {
        let free_bytes = self.chunk_bytes() - self.live_bytes;
        self.tidied_free_bytes = self.tidied_free_bytes.min(free_bytes);
        free_bytes > (self.chunk_bytes() / free_part).max(CHUNK_BYTES)
            && free_bytes - self.tidied_free_bytes > self.chunk_bytes() / (4 * free_part)
    }

    /// Chooses runs that are to be left: those that are more than a class needs. If they are less than one of so many parts of the
    /// chunks, then those in high chunks for which there are empty runs in lower ones. Nothing is put there any more. None, and `false`,
    /// if no chunk would become empty by that either.
    pub fn choose_runs_to_leave(&mut self, free_part: usize) -> bool {
        let mut left = Vec::new();
        // Wide places stay where they are: nothing but a leaf's word leads to them.
        for class in class(WIDE_BYTES) + 1..CLASSES {
            let runs: Vec<usize> = self.runs[class].iter().copied().collect();
            let live: usize = runs.iter().map(|&run| self.header(run).live).sum();
            let pieces_of_run = (RUN_BYTES - RUN_HEADER_BYTES) / class_bytes(class);
            left.extend(runs.into_iter().skip(live.div_ceil(pieces_of_run)).map(|run| (class, run)));
        }
        if left.len() * RUN_BYTES * free_part * 4 < self.chunk_bytes {
            if self.empty.len() * RUN_BYTES < CHUNK_BYTES {
                return false;
            }
            left = self.runs_above_empty_ones();
        }
        for &(class, run) in &left {
            self.open[class].remove(&run);
            self.header(run).is_left = true;
        }
        true
    }

    fn runs_above_empty_ones(&self) -> Vec<(usize, usize)> {
        let classes = self.runs.iter().enumerate().skip(class(WIDE_BYTES) + 1);
        let mut used: Vec<(usize, usize)> =
            classes.flat_map(|(class, runs)| runs.iter().map(move |&run| (class, run))).collect();
        used.sort_unstable_by_key(|(_, run)| std::cmp::Reverse(*run));
        let mut empty = self.empty.iter();
        used.into_iter().take_while(|(_, run)| empty.next().is_some_and(|empty| empty < run)).collect()
    }

    /// Ends what [`Slab::choose_runs_to_leave`] began: what still lies in those runs may stay.
    pub fn leave_no_more(&mut self) {
        self.tidied_free_bytes = self.chunk_bytes() - self.live_bytes;
        for class in 0..CLASSES {
            for run in self.runs[class].clone() {
                let header = self.header(run);
                header.is_left = false;
                if header.has_room(class_bytes(class)) {
                    self.open[class].insert(run);
                }
            }
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.chunks.iter().for_each(|(&begin, chunk)| self.give_chunk_back(begin, chunk.length_bytes));
        self.large.iter().for_each(|(&chunk, &length_bytes)| self.give_chunk_back(chunk, length_bytes));
    }
}

/// The length of a class's pieces.
fn class_bytes(class: usize) -> usize {
    let fine = FINE_BYTES_MAX / FINE_BYTES;
    if class <= fine { class * FINE_BYTES } else { FINE_BYTES_MAX + (class - fine) * COARSE_BYTES }
}

fn run_of(address: usize) -> usize {
    address & !(RUN_BYTES - 1)
}

fn pointer(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}

#[cold]
fn no_memory() -> Error {
    Error::io("allocate", Path::new("index"), std::io::ErrorKind::OutOfMemory.into())
}
