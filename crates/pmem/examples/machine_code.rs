//! Small functions whose machine code `scripts/machine-code-check` looks at: what a flush, a fence and a read that is noted
//! leave on each medium once everything is inlined. Run, it calls them.

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

// What is given back tells the functions for reads from those that do nothing.
#[unsafe(no_mangle)]
#[inline(never)]
fn machine_code_dram_read(medium: &Dram, number: u64) -> u64 {
    medium.note_read();
    number
}

#[unsafe(no_mangle)]
#[inline(never)]
fn machine_code_undelayed_read(medium: &Persistent<Undelayed>, number: u64) -> u64 {
    medium.note_read();
    number + 1
}

#[unsafe(no_mangle)]
#[inline(never)]
fn machine_code_any_read(medium: &AnyMedium, number: u64) -> u64 {
    medium.note_read();
    number + 2
}

#[unsafe(no_mangle)]
#[inline(never)]
fn machine_code_delayed_read(medium: &Persistent<Delayed>, number: u64) -> u64 {
    medium.note_read();
    number + 3
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
    let dram_read: fn(&Dram, u64) -> u64 = machine_code_dram_read;
    let undelayed_read: fn(&Persistent<Undelayed>, u64) -> u64 = machine_code_undelayed_read;
    let mut number = black_box(dram_read)(&Dram, 1);
    number = black_box(undelayed_read)(&undelayed, number);
    number = machine_code_any_read(&AnyMedium::dram(), number);
    assert_eq!(machine_code_delayed_read(&delayed, number), 7);
    println!("{undelayed:?}\n{delayed:?}");
}
