//! Small functions whose machine code `scripts/machine-code-check` looks at: what a flush and a fence leave on each
//! medium once everything is inlined. Run, it calls them.

use std::hint::black_box;

use slmdb_pmem::persistent::{Delayed, Undelayed};
use slmdb_pmem::{AnyMedium, Dram, Emulation, Medium, Persistent};

/// What engines are built on.
// SAFETY: as below.
#[unsafe(no_mangle)]
#[inline(never)]
fn machine_code_any(medium: &AnyMedium, start: *const u8, length_bytes: usize) {
    medium.flush(start, length_bytes);
    medium.fence();
}

// SAFETY: of the names below: nothing else in this program is called so.
#[unsafe(no_mangle)]
#[inline(never)]
fn machine_code_dram(medium: &Dram, start: *const u8, length_bytes: usize) {
    medium.flush(start, length_bytes);
    medium.fence();
}

#[unsafe(no_mangle)]
#[inline(never)]
fn machine_code_undelayed_flush(medium: &Persistent<Undelayed>, start: *const u8, length_bytes: usize) {
    medium.flush(start, length_bytes);
}

#[unsafe(no_mangle)]
#[inline(never)]
fn machine_code_undelayed_fence(medium: &Persistent<Undelayed>) {
    medium.fence();
}

#[unsafe(no_mangle)]
#[inline(never)]
fn machine_code_delayed(medium: &Persistent<Delayed>, start: *const u8, length_bytes: usize) {
    medium.flush(start, length_bytes);
    medium.fence();
}

fn main() {
    let bytes = [0_u8; 100];
    let (start, length_bytes) = (black_box(bytes.as_ptr()), black_box(bytes.len()));
    // Through a pointer, or nothing would be left of the call either.
    let dram: fn(&Dram, *const u8, usize) = machine_code_dram;
    black_box(dram)(&Dram, start, length_bytes);
    machine_code_any(&AnyMedium::dram(), start, length_bytes);
    let undelayed = Persistent::new();
    machine_code_undelayed_flush(&undelayed, start, length_bytes);
    machine_code_undelayed_fence(&undelayed);
    let delayed = Persistent::emulating(&Emulation { latency_ns: 100, ..Emulation::default() });
    machine_code_delayed(&delayed, start, length_bytes);
    println!("{undelayed:?}\n{delayed:?}");
}
