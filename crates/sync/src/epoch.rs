//! Epochs: what is put off until no reader is left.
//!
//! In an ordinary build this is crossbeam's. Under shuttle each run has a collector of its own; under loom there is what
//! crossbeam promises, and no more.

#[cfg(not(any(loom, shuttle)))]
pub use crossbeam_epoch::{Guard, pin};

#[cfg(shuttle)]
mod of_a_run;
#[cfg(shuttle)]
pub use of_a_run::{Guard, pin};
#[cfg(shuttle)]
pub(crate) use of_a_run::{begin_anew, end};

#[cfg(loom)]
mod promised;
#[cfg(loom)]
pub(crate) use promised::reset;
#[cfg(loom)]
pub use promised::{Freeing, Guard, free, pin};
