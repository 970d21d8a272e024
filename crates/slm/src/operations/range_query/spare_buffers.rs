//! Buffers of cursors that are gone, for the next ones. To allocate them would take a tenth of a range's time.

use slmdb_engine::read::values_ahead::ValuesAhead;
use slmdb_sync::scheduled::Mutex;

use crate::index::key_index::IndexRead;

/// How many cursors' buffers are kept for the next ones, and what those of one may take, in bytes.
const SPARE_MAX: usize = 4;
const SPARE_BYTES_MAX: u64 = 32 << 10;

/// See the module.
#[derive(Default)]
pub(crate) struct SpareBuffers(Mutex<Vec<(IndexRead, ValuesAhead)>>);

impl SpareBuffers {
    /// Those of an earlier cursor, or new ones.
    pub(crate) fn take(&self) -> (IndexRead, ValuesAhead) {
        self.0.try_lock().and_then(|mut spare| spare.pop()).unwrap_or_default()
    }

    /// Keeps those of a cursor that goes, unless they are large or there are enough.
    pub(crate) fn give(&self, mut index: IndexRead, mut values_ahead: ValuesAhead) {
        index.reset();
        values_ahead.reset();
        if index.memory_bytes() + values_ahead.memory_bytes() <= SPARE_BYTES_MAX
            && let Some(mut spare) = self.0.try_lock()
            && spare.len() < SPARE_MAX
        {
            spare.push((index, values_ahead));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_small_buffers_are_kept_for_the_next_cursors() {
        let spare = SpareBuffers::default();
        let mut long = IndexRead::default();
        long.keys.reserve(SPARE_BYTES_MAX as usize + 1);
        spare.give(long, ValuesAhead::default());
        assert!(spare.0.lock().is_empty(), "long keys are not kept");
        for _ in 0..SPARE_MAX + 1 {
            spare.give(IndexRead::default(), ValuesAhead::default());
        }
        assert_eq!(spare.0.lock().len(), SPARE_MAX);
    }
}
