//! The library stays in a process that has loaded it once, even when Java is done with its class loader: a handler of signals,
//! and threads of stores that are still open, are in it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
