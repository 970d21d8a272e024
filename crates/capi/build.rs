//! Gives the shared library the name by which programs ask for it: its file, and the version of its interface.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libslmdb.so.0");
}
