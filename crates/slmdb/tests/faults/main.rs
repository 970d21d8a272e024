//! File operations that fail, one after the other: each one of a workload that a kind of failure can strike, once and for
//! good, on stores with and without a pool. Then the machine loses power, or the process is killed. Whatever was acknowledged is
//! there, of what was refused all or nothing, the store opens, and `verify` finds nothing; reads give right answers or errors
//! all the while, and no thread is left hanging.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod full_pool;
mod history;
mod regressions;
mod turns;
mod workload;

use slmdb_testkit::{Failure, Repeat};
use turns::{every_place_in_turn, every_place_of_recovery_in_turn};
use workload::Store;

/// A test for each kind of failure, for how long it lasts, and for the kind of store.
macro_rules! failures {
    ($($name:ident: $failure:expr;)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn once_on_dram() {
                every_place_in_turn(Store::Dram, "", $failure, Repeat::Once);
            }

            #[test]
            fn for_good_on_dram() {
                every_place_in_turn(Store::Dram, "", $failure, Repeat::ForGood);
            }

            #[test]
            fn once_on_a_device() {
                every_place_in_turn(Store::Device, "", $failure, Repeat::Once);
            }

            #[test]
            fn for_good_on_a_device() {
                every_place_in_turn(Store::Device, "", $failure, Repeat::ForGood);
            }

            #[test]
            fn in_recovery_on_dram() {
                every_place_of_recovery_in_turn(Store::Dram, $failure);
            }

            #[test]
            fn in_recovery_on_a_device() {
                every_place_of_recovery_in_turn(Store::Device, $failure);
            }
        })*
    };
}

failures! {
    an_input_output_error_anywhere: Failure::Io;
    a_full_disk_anywhere: Failure::Full;
    a_short_write_anywhere: Failure::ShortWrite;
    a_failed_sync_anywhere: Failure::FailedSync;
    an_error_although_it_arrived_anywhere: Failure::ArrivedYetFailed;
    too_many_open_files_anywhere: Failure::NoDescriptor;
    a_flipped_bit_anywhere: Failure::FlippedBit { seed: common::budget() };
}

#[test]
fn every_other_engine_passes() {
    common::every_other_engine_passes();
}
