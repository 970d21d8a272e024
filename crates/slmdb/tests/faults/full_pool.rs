//! A pool that is full at every one of its allocations: because it has come to its largest size, for each size; or because the disk
//! that it grows on is full, each time that it grows.

use std::sync::Arc;

use slmdb::{EngineName, ErrorKind};
use slmdb_testkit::{Failure, Repeat};

use crate::common::{contents, engine};
use crate::turns::{every_place_in_turn, in_turn};
use crate::workload::{self, End, POOL_UNIT_BYTES, STORE, Store};

/// The workload in pools of the least size there is, and ever one unit more, until nothing is refused any more.
fn every_size_in_turn(store: Store) {
    // A device is refused that can't hold a pool's header and map.
    let least_units = if store == Store::Device { 4 } else { 0 };
    let sizes = in_turn(
        &format!("a full pool on {store:?}"),
        || store.machine(),
        |units: u64, env, context| {
            let options = store
                .options(env)
                .pool_initial_bytes(POOL_UNIT_BYTES)
                .pool_growth_bytes(POOL_UNIT_BYTES)
                .pool_maximum_bytes((least_units + units) * POOL_UNIT_BYTES);
            let outcome = workload::run(store, &options, env, None);
            for (left, end) in [(env.crash(), End::PowerCut), (env.kill(), End::Kill)] {
                let context = format!("{context}, then {end:?}");
                // As small as it was: it opens, and holds what it took.
                match options.clone().env(Arc::new(left.clone())).open(STORE) {
                    Ok(db) => {
                        let found = contents(&db).unwrap();
                        let history = &outcome.history;
                        let explained = match end {
                            End::Kill => history.explains(&found, history.len()),
                            End::PowerCut => history.explains_after_power_cut(&found),
                        };
                        explained.unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
                        for key in found.keys() {
                            assert!(db.get(key).unwrap().is_some(), "{context}");
                        }
                        db.close().unwrap_or_else(|error| panic!("{context}: does not close: {error:?}"));
                    }
                    Err(error) => {
                        // (Invalid: no put would have been taken.)
                        assert!(matches!(error.kind(), ErrorKind::Full | ErrorKind::Invalid), "{context}: {error:?}");
                        assert_eq!(outcome.history.len(), 0, "{context}: it had been open");
                    }
                }
                workload::check(&left, &store.options(&left), &outcome, end, &context);
            }
            outcome.refused_full > 0 || outcome.history.len() == 0
        },
    );
    // (The pool of ChameleonDB has little, and the smallest device is enough for it.)
    let is_small = engine() == EngineName::Chameleon && store == Store::Device;
    assert!(sizes > 4 || is_small, "the smallest pools are large enough for all: {sizes}");
    println!("places: {sizes} sizes of a pool on {store:?}");
}

#[test]
fn at_every_size_on_dram() {
    if crate::common::needs_no_pool_on_dram() {
        return;
    }
    every_size_in_turn(Store::Dram);
}

#[test]
fn at_every_size_on_a_device() {
    every_size_in_turn(Store::Device);
}

#[test]
fn the_disk_is_full_whenever_the_pool_grows_once() {
    every_place_in_turn(Store::File, "allocate /pool", Failure::Full, Repeat::Once);
}

#[test]
fn the_disk_is_full_whenever_the_pool_grows_for_good() {
    every_place_in_turn(Store::File, "allocate /pool", Failure::Full, Repeat::ForGood);
}
