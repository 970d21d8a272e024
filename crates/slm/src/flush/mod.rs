//! Section 3.2: the file creation thread, the B+-tree insertion thread, and the queue between them.

pub(crate) mod file_creation;
pub(crate) mod finished;
pub(crate) mod index_insertion;
