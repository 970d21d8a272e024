//! Peers' errors, as the bench's.

use slmdb_bench::Error;

/// A peer's error.
pub fn failed(peer: &str, error: impl ToString) -> Error {
    Error::Peer(peer.to_string(), error.to_string())
}

/// For `map_err`: the error of the peer of this name.
pub fn failed_in<E: ToString>(peer: &'static str) -> impl Fn(E) -> Error {
    move |error| failed(peer, error)
}
