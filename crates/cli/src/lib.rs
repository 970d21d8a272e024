//! What of the command `slmdb` is of use to others: how bytes are written as text ([`bytes`]), and what `import` reads and
//! `export` writes ([`formats`]). The rest is the command itself.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod formats;
