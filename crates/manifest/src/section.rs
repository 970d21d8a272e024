//! An engine's own section of the MANIFEST, as the engine reads it.

use slmdb_env::{Error, Result};

use crate::log::FILE_NAME;
use crate::state::StoreState;

impl StoreState {
    /// The parts 1 to `N` of the engine's section, which are all that the engine knows. One that is not there is empty.
    /// [`Error::Unsupported`]: there is another one, which a newer version has written.
    pub fn engine_parts<const N: usize>(&self) -> Result<[&[u8]; N]> {
        let mut parts: [&[u8]; N] = [&[]; N];
        for (&number, bytes) in &self.engine_section {
            let part = parts.get_mut(usize::from(number).wrapping_sub(1)).ok_or_else(|| Error::Unsupported {
                what: format!("part {number} of the section that the engine {} has in the MANIFEST", self.engine),
                file: Some(FILE_NAME.into()),
            })?;
            *part = bytes;
        }
        Ok(parts)
    }
}
