//! Hostile bytes: whatever a medium holds, reading it gives an error or right answers. Never a panic, a hang, an endless
//! cycle, an access out of bounds, nor more memory than the bytes themselves, the budget and one largest value.
//!
//! Each [`Target`] is a function from any bytes to nothing: it makes of them a file, or a whole store, reads it in every
//! way there is, and panics where the promise is broken. The same functions are run by libFuzzer (`fuzz/`, `scripts/fuzz`),
//! and by `cargo test -p slmdb-hostile`, which replays what fuzzing has gathered and found and adds mutations of its own.
//!
//! An input begins with a byte that says how to take the rest ([`Mode`]): as a file, or as a [`script`] of edits to a sound
//! one; and whether checksums are then [mended](mend), so that what stands behind them is reached. What may be asserted
//! depends on that:
//!
//! - a sound file that was edited and **not mended** gives what was written, or an error; where the format can't tell damage
//!   from a crash (the end of a log), a prefix of what was written;
//! - bytes that were **mended** may mean anything. They give errors, or answers that agree with each other.
//!
//! To be read: [`script`], [`mend`], then the targets, in the order of [`Target::ALL`].
#![forbid(unsafe_code)]

pub mod mend;
pub mod script;

mod arena;
mod checkpoint;
mod hash_table;
mod import;
mod list;
mod manifest;
mod memory;
mod mode;
mod mutate;
mod pool;
mod store;
mod table;
mod table_by_key;
mod target;
pub mod tree;

pub use store::sound::make_all as make_sound_stores;

pub use mode::Mode;
pub use mutate::mutate;
pub use target::Target;
