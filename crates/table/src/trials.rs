//! [`Trials`]: whether blocks are worth being compressed, as far as the last ones tell.

/// After so many blocks, one behind the other, that compression did not make smaller, entries are not gathered,
const TRIALS_IN_VAIN_MAX: u32 = 4;
/// but for as much as one block in so many: data is rarely alike for long.
const BLOCKS_PER_TRIAL: u64 = 16;

/// Whether compression was of use lately.
#[derive(Debug, Default)]
pub(crate) struct Trials {
    /// So many blocks, one behind the other, were not made smaller.
    in_vain: u32,
    /// So many bytes of entries are still to pass by themselves.
    bytes_to_pass: u64,
}

impl Trials {
    /// Whether the next entry is not gathered.
    pub(crate) fn passes(&self) -> bool {
        self.bytes_to_pass > 0
    }

    pub(crate) fn passed(&mut self, bytes: u32) {
        self.bytes_to_pass = self.bytes_to_pass.saturating_sub(bytes.into());
    }

    pub(crate) fn succeeded(&mut self) {
        *self = Trials::default();
    }

    pub(crate) fn failed(&mut self, block_bytes: usize) {
        self.in_vain = self.in_vain.saturating_add(1);
        if self.in_vain >= TRIALS_IN_VAIN_MAX {
            self.bytes_to_pass = (BLOCKS_PER_TRIAL - 1) * block_bytes as u64;
        }
    }
}
