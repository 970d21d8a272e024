//! Remembered ranges under loom, with publication.

use std::sync::Arc;

use slmdb_sync::model::{check, thread};

use super::*;
use crate::write::publication::Publication;

/// The second of these writes is a put into the range that cursors find empty before.
#[test]
fn loom_what_is_skipped_has_no_value() {
    check("empty ranges: a writer and cursors", 3, || {
        let shared = Arc::new((EmptyRanges::new(KeyOrder::Bytewise), Publication::new(0)));
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (ranges, publication) = &*shared;
                let first = publication.begin(1);
                publication.complete(first);
                let second = publication.begin(2);
                let mut batch = WriteBatch::new();
                let _ = batch.put("k", "value");
                ranges.note_puts(&batch);
                publication.complete(second);
            })
        };
        let (ranges, publication) = &*shared;
        let found = KeyRange { low: b"a".to_vec(), high: b"z".to_vec() };
        for _ in 0..3 {
            let moment = publication.published();
            if moment < 2 {
                ranges.remember(&found, moment, || publication.begun());
            } else {
                assert_eq!(ranges.end_of(b"k", moment, true), None, "a put is skipped");
            }
        }
        writer.join().unwrap();
        assert_eq!(ranges.end_of(b"k", publication.published(), true), None, "a put is skipped");
    });
}
