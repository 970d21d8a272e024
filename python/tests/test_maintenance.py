"""Copies, checks, repairs, numbers, and removing a store."""

import pytest
from conftest import damage_table

import slmdb


def test_a_checkpoint_is_a_store_of_its_own(db, tmp_path):
    db[b"k"] = b"before"
    db.checkpoint(tmp_path / "copy")
    db[b"k"] = b"after"
    with slmdb.DB(tmp_path / "copy", create_if_missing=False) as copy:
        assert copy[b"k"] == b"before"


def test_numbers_have_the_names_of_the_command(db):
    for number in range(1000):
        db[b"%04d" % number] = b"v" * 100
    stats = db.stats()
    assert stats["engine"] == "slm" and stats["medium"] == "dram"
    assert stats["memtable_entries"] == stats["last_sequence_number"] == 1000
    assert stats["since_open"]["user_bytes_put"] == stats["lifetime"]["user_bytes_put"] == 104_000
    db.flush()
    stats = db.stats()
    assert (stats["memtable_entries"], stats["index_keys"], stats["table_files"]) == (0, 1000, 1)
    assert stats["since_open"]["flushes"] == 1
    assert stats["since_open"]["write_amplification_of_files"] > 0
    assert stats["compaction_choices"]["all"]["files"] == 0
    assert (stats["levels"], stats["demotions"]) == ([], 0)
    parts = ["block_cache_bytes", "open_tables_bytes", "memtable_lists_bytes", "memtable_arenas_bytes", "index_bytes"]
    parts += ["replaced_records_bytes", "cursors_bytes", "catalog_bytes", "background_bytes"]
    assert all(isinstance(stats[part], int) for part in parts)
    with db.iterator(), db.snapshot():
        stats = db.stats()
        assert (stats["open_cursors"], stats["open_snapshots"]) == (1, 1)


def test_levels_have_numbers(tmp_path):
    with slmdb.DB(tmp_path / "db", engine="lab") as db:
        db[b"k"] = b"v"
        db.flush()
        (level,) = db.stats()["levels"]
        (file,) = db.table_files()
        assert level == {"level": 0, "runs": 1, "bytes": file["bytes"], "bytes_in_pool": 0}
        assert not file["in_pool"]


def test_a_range_is_estimated(db):
    for number in range(1000):
        db[b"%04d" % number] = b"v" * 100
    assert db.approximate(start=b"0100", stop=b"0200").memtable_bytes == 10_400
    db.flush()
    about = db.approximate(start=b"0100", stop=b"0200")
    assert (about.keys, about.memtable_bytes) == (100, 0)
    assert about.table_bytes > 0
    assert db.approximate().keys == 1000
    assert db.approximate(start=b"2").keys == 0


def test_compacting_drops_what_is_obsolete(db):
    for _ in range(3):
        for number in range(1000):
            db[b"%04d" % number] = b"v" * 100
        db.flush()
    db.compact_range(start=b"0000", stop=b"0500")
    db.compact_range()
    assert sum(file["entries"] for file in db.table_files()) == 1000


def test_verifying_tells_how_far_it_is(db):
    for number in range(1000):
        db[b"%04d" % number] = b"v" * 100
    db.flush()
    told = []
    report = db.verify(progress=lambda done, total: told.append((done, total)))
    assert report.is_clean and report.findings == []
    assert (report.entries_checked, report.index_keys_checked, report.table_files_checked) == (1000, 1000, 1)
    assert told and told[-1][0] == told[-1][1] == report.table_bytes_checked

    def stop(done, total):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        db.verify(progress=stop)


def test_repairing_tells_what_was_lost(path):
    with slmdb.DB(path) as db:
        for number in range(1000):
            db[b"%04d" % number] = b"v" * 100
        db.flush()
    damage_table(path)
    report = slmdb.repair(path, progress=lambda done, total: None)
    assert report.damage and all(isinstance(damage, slmdb.CorruptionError) for damage in report.damage)
    assert 0 < len(report.losses) < 1000
    assert report.losses[0].startswith("key 0000")
    assert report.index_keys == 1000 - len(report.losses)
    with slmdb.DB(path) as db:
        assert db.verify().is_clean
        assert len(list(db)) == report.index_keys
    with pytest.raises(slmdb.InvalidError):
        slmdb.repair(path / "nothing")


def test_destroying_leaves_what_is_not_the_stores(path):
    with slmdb.DB(path) as db:
        db[b"k"] = b"v"
        with pytest.raises(slmdb.LockedError):
            slmdb.destroy(path)
    (path / "mine").write_text("mine")
    destroyed = slmdb.destroy(path)
    assert destroyed.left == ["mine"] and destroyed.files > 0 and destroyed.bytes > 0 and destroyed.pool is None
    assert [child.name for child in path.iterdir()] == ["mine"]
    with pytest.raises(slmdb.InvalidError):
        slmdb.destroy(path)
