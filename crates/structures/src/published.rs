//! The place of something that is replaced whole, and loaded without a lock.

#[cfg(not(loom))]
pub(crate) use slmdb_sync::scheduled::ArcSwap as Published;

/// The checker has no such thing, so there it is a lock around the same.
#[cfg(loom)]
pub(crate) struct Published<T>(slmdb_sync::modelled::Mutex<std::sync::Arc<T>>);

#[cfg(loom)]
impl<T> Published<T> {
    pub fn from_pointee(value: T) -> Self {
        Published(slmdb_sync::modelled::Mutex::new(std::sync::Arc::new(value)))
    }

    pub fn load(&self) -> std::sync::Arc<T> {
        std::sync::Arc::clone(&self.0.lock())
    }

    pub fn load_full(&self) -> std::sync::Arc<T> {
        self.load()
    }

    pub fn store(&self, value: std::sync::Arc<T>) {
        *self.0.lock() = value;
    }
}
