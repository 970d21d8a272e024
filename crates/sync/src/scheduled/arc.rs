//! What is replaced as a whole while others read it.

use std::sync::Arc;

use arc_swap::Guard;

use super::point;

/// As arc-swap's, and before each operation a place to be interrupted at.
#[derive(Debug)]
pub struct ArcSwap<T>(arc_swap::ArcSwap<T>);

impl<T> ArcSwap<T> {
    /// With a value.
    pub fn from_pointee(value: T) -> ArcSwap<T> {
        ArcSwap(arc_swap::ArcSwap::from_pointee(value))
    }

    /// What is there, for a short while.
    pub fn load(&self) -> Guard<Arc<T>> {
        point();
        self.0.load()
    }

    /// What is there.
    pub fn load_full(&self) -> Arc<T> {
        point();
        self.0.load_full()
    }

    /// Replaces what is there.
    pub fn store(&self, value: Arc<T>) {
        point();
        self.0.store(value);
    }
}
