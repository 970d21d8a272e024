//! Threads with little stack, as some C libraries give by default and `ulimit -s` may leave. Each case has a process of its
//! own, because a stack that ends is a signal: this test program, started again.

use std::time::Duration;

use slmdb::{Db, Medium, Options};

use super::lacks::{assert_passes_in, on};
use crate::common::{Home, MEDIA, On, contents};

/// Half of what the C library gives that gives least. Unoptimised builds take more.
const STACK_BYTES: usize = 64 << 10;

fn options(home: &Home) -> Options {
    home.options().memtable_bytes(16 << 10).advanced(|advanced| advanced.checkpoint_entries(200))
}

fn fill(db: &Db) {
    for number in 0..1000_u32 {
        db.put(format!("key {:04}", number % 700), number.to_be_bytes().repeat(10)).unwrap();
    }
    (0..100).for_each(|number| db.delete(format!("key {number:04}")).unwrap());
}

/// Opening took more than 256 KiB.
#[test]
fn little_stack_is_enough_for_everything() {
    let test = "little_stack_is_enough_for_everything";
    let Some(on) = on() else {
        MEDIA.into_iter().for_each(|on| assert_passes_in("stack", on, test, ":"));
        return;
    };
    let home = Home::new(on);
    let step = |name: &str, run: &(dyn Fn() + Sync)| {
        eprintln!("{name}, with a stack of {STACK_BYTES} bytes");
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, run).unwrap().join().unwrap();
        });
    };
    let copy = home.store().with_file_name("copy");
    step("made", &|| drop(options(&home).open(home.store()).unwrap()));
    let db = options(&home).open(home.store()).unwrap();
    step("writes", &|| fill(&db));
    step("cursors", &|| drop(contents(&db).unwrap()));
    step("flush", &|| db.flush().unwrap());
    step("compaction", &|| db.compact_range::<&[u8]>(..).unwrap());
    step("verify", &|| assert!(db.verify(&mut |_| ()).unwrap().is_clean()));
    step("numbers", &|| drop((db.stats(), db.table_files(), db.approximate::<&[u8]>(..).unwrap())));
    step("copy", &|| db.checkpoint(&copy).unwrap());
    fill(&db);
    db.compact_range::<&[u8]>(..).unwrap();
    (0..100).for_each(|number| db.put(format!("last {number:03}"), "value").unwrap());
    db.sync().unwrap();
    // As a killed process leaves it. What the store does by itself comes to its end before its files are copied.
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(home.store()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let mut before = Vec::new();
    while before != names() {
        before = names();
        std::thread::sleep(Duration::from_millis(200));
    }
    std::mem::forget(db);
    let killed = home.copy();
    step("recovery to read", &|| drop(options(&killed).read_only(true).open(killed.store()).unwrap()));
    step("recovery", &|| options(&killed).open(killed.store()).unwrap().close().unwrap());
    step("opening", &|| drop(options(&killed).open(killed.store()).unwrap()));
    step("repair", &|| drop(options(&killed).repair(killed.store(), &mut |_| ()).unwrap()));
    step("opening of a copy", &|| drop(options(&killed).medium(Medium::Dram).open(&copy).unwrap()));
    if on != On::Dram {
        step("opening without its pool", &|| {
            let elsewhere = killed.pool().unwrap().with_file_name("elsewhere");
            drop(options(&killed).medium(on.medium(Some(elsewhere))).open(killed.store()).map(drop));
        });
    }
    step("removal", &|| drop(slmdb::destroy(killed.store(), &options(&killed)).unwrap()));
}
