//! Compression with zstd: in a build with the feature a store as any other; in one without, a clear refusal.

use crate::common::{Home, MEDIA};
use slmdb::Compression;

#[cfg(not(feature = "zstd"))]
#[test]
fn without_the_feature_opening_says_so_and_makes_nothing() {
    for on in MEDIA {
        let home = Home::new(on);
        let error = home.options().compression(Compression::Zstd).open(home.store()).unwrap_err();
        assert_eq!(error.kind(), slmdb::ErrorKind::Unsupported);
        assert!(error.to_string().contains("feature `zstd`"), "{error}");
        assert!(!home.store().exists());
    }
}

#[cfg(feature = "zstd")]
#[test]
fn values_come_back_from_files_of_every_compression() {
    use crate::common::{Model, Random, assert_same, assert_verified, contents};

    for on in MEDIA {
        let home = Home::new(on);
        let (mut random, mut model) = (Random(1), Model::new());
        let mut table_bytes = Vec::new();
        for (round, compression) in [Compression::None, Compression::Lz4, Compression::Zstd].into_iter().enumerate() {
            let db = home.options().memtable_bytes(1 << 20).compression(compression).open(home.store()).unwrap();
            let before = db.stats().table_bytes;
            for number in 0..2000 {
                let key = format!("{round}/{number:05}").into_bytes();
                // Words from a small vocabulary: more for zstd to find than for LZ4.
                let words = (0..random.below(60)).map(|_| format!("word{} ", random.below(50)));
                let value = words.collect::<String>().into_bytes();
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            db.flush().unwrap();
            table_bytes.push(db.stats().table_bytes - before);
            assert_same(&contents(&db).unwrap(), &model, &format!("{on:?}, {compression:?}"));
            assert_verified(&db, "flushed");
            db.close().unwrap();
        }
        let db = home.open();
        assert_same(&contents(&db).unwrap(), &model, "reopened");
        assert_verified(&db, "reopened");
        println!("{on:?}: none, lz4, zstd: {table_bytes:?} bytes");
        assert!(table_bytes[2] < table_bytes[1] && table_bytes[1] < table_bytes[0], "{table_bytes:?}");
    }
}
