//! libFuzzer's way into `slmdb-hostile`. `SLMDB_FUZZ_TARGET` names the target; `scripts/fuzz` sets it.
#![no_main]

use std::sync::OnceLock;

use slmdb_hostile::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let name = std::env::var("SLMDB_FUZZ_TARGET").unwrap_or_default();
        let names = Target::ALL.map(Target::name);
        let target = Target::named(&name).unwrap_or_else(|| panic!("SLMDB_FUZZ_TARGET is {name:?}, none of {names:?}"));
        let _ = TARGET.set(target);
    },
    |input: &[u8]| if let Some(target) = TARGET.get() { target.run(input) }
);
