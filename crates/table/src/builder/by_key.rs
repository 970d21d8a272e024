//! What a [`TableBuilder`] does otherwise in a file that is searched by key: entries stay in blocks, and these get an index.

use slmdb_env::Result;

use super::TableBuilder;
use crate::entry::Place;
use crate::index_builder::IndexBuilder;
use crate::part::PartKind;
use crate::writer::KEPT_BYTES;

impl TableBuilder {
    /// As [`end_block`](TableBuilder::end_block), in a file that is searched by key: the block stays one, unless it has one entry.
    pub(super) fn end_block_by_key(&mut self, next: Option<&[u8]>) -> Result<()> {
        let is_alone = self.block.entries() == 1;
        self.block.finish(self.writer.buffer());
        let mut content = std::mem::take(&mut self.content);
        let place = if self.trials.passes() && !is_alone {
            self.seal_block_as_it_is()?
        } else if let Some(place) = self.writer.seal_if_smaller(&mut content)? {
            self.trials.succeeded();
            self.properties.blocks += 1;
            place
        } else if is_alone {
            self.add_singly(&content)?
        } else {
            self.trials.failed(self.options.block_bytes);
            self.writer.buffer().extend_from_slice(&content);
            self.seal_block_as_it_is()?
        };
        if content.capacity() <= KEPT_BYTES {
            self.content = content;
        }
        // No more than `u32::MAX`: others are refused.
        let entries = self.properties.entries as u32;
        if let Some(index) = &mut self.index {
            index.end_block(place, (&self.last_key, self.last_sequence), next, entries);
        }
        Ok(())
    }

    fn seal_block_as_it_is(&mut self) -> Result<Place> {
        let place = self.writer.seal_as_it_is(PartKind::Block)?;
        self.properties.blocks += 1;
        self.trials.passed(place.length);
        Ok(place)
    }

    /// Writes the index; returns the length of its top as stored.
    pub(super) fn write_index(&mut self, index: IndexBuilder) -> Result<u32> {
        let (chunks, mut top) = index.finish();
        for content in chunks {
            self.writer.buffer().extend_from_slice(&content);
            top.push(self.writer.seal_as_it_is(PartKind::IndexChunk)?);
        }
        self.writer.buffer().extend_from_slice(&top.finish());
        Ok(self.writer.seal_as_it_is(PartKind::IndexTop)?.length)
    }
}
