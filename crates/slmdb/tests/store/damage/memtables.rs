//! Bytes of MemTables that somebody else has written over while the store is open.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use crate::common::{Home, MEDIA};

#[test]
fn verify_finds_what_was_written_over_in_a_memtable() {
    for on in MEDIA {
        for part in [0, 50, 99] {
            let home = Home::new(on);
            let db = home.open();
            for number in 0..100 {
                db.put(format!("key{number:02}"), format!("the value of number {number:02}")).unwrap();
            }
            assert!(db.verify(&mut |_| ()).unwrap().is_clean());
            // The file that the MemTable is in, and the place of a value.
            let wanted = format!("the value of number {part:02}");
            let files = fs::read_dir(home.store()).unwrap().map(|entry| entry.unwrap().path()).chain(home.pool());
            let (path, place) = files
                .filter_map(|path| {
                    let bytes = fs::read(&path).unwrap();
                    let place = bytes.windows(wanted.len()).position(|window| window == wanted.as_bytes())?;
                    Some((path, place))
                })
                .next()
                .unwrap();
            // A key is hidden, or a value is another.
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(b"warning: some library", place as u64 - 4).unwrap();
            let report = db.verify(&mut |_| ()).unwrap();
            assert_eq!(report.memtable_entries, 100);
            let finding = report.findings.first().unwrap_or_else(|| panic!("{on:?}, {part}: verify found nothing"));
            assert!(
                matches!(finding, slmdb::Error::Corruption { file, offset, .. } if *file == path && *offset <= place as u64),
                "{finding}"
            );
        }
    }
}
