//! What of the command `slmdb` is of use to others: how bytes are written as text ([`bytes`]), what `import` reads and
//! `export` writes ([`formats`]), how the fast tier is named ([`pm`]), what a store says of itself ([`reports`]), and sizes as
//! people write them ([`units`]). The rest is the command itself.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod formats;
pub mod pm;
pub mod reports;
pub mod units;
