"""Exceptions, and options that are refused."""

import errno
import os

import pytest
from conftest import damage_table

import slmdb


def test_exceptions_are_those_that_programs_know():
    for name in slmdb.__all__:
        thing = getattr(slmdb, name)
        if isinstance(thing, type) and issubclass(thing, Exception):
            assert issubclass(thing, slmdb.Error)
            assert thing.__module__ == "slmdb" and thing.__doc__
    assert issubclass(slmdb.IOError, OSError)
    assert issubclass(slmdb.FullError, slmdb.IOError)
    assert issubclass(slmdb.LockedError, slmdb.IOError)
    assert issubclass(slmdb.InvalidError, ValueError)
    assert issubclass(slmdb.ClosedError, RuntimeError)


def test_a_store_that_is_open_is_locked(db, path):
    with pytest.raises(slmdb.LockedError, match="close the other opener") as locked:
        slmdb.DB(path)
    assert locked.value.errno == errno.EAGAIN
    assert locked.value.filename == str(path / "LOCK")
    assert locked.value.holder == os.getpid()
    assert locked.value.kind == "locked"


def test_a_missing_store_and_an_existing_one(path):
    with pytest.raises(slmdb.InvalidError, match="there is no store"):
        slmdb.DB(path, create_if_missing=False)
    slmdb.DB(path).close()
    with pytest.raises(slmdb.InvalidError):
        slmdb.DB(path, error_if_exists=True)


def test_a_store_for_reading_takes_no_writes(path):
    with slmdb.DB(path) as db:
        db[b"k"] = b"v"
    with slmdb.DB(path, read_only=True) as db, slmdb.DB(path, read_only=True) as other:
        assert db[b"k"] == other[b"k"] == b"v"
        with pytest.raises(slmdb.ReadOnlyError):
            db[b"k"] = b"w"


def test_damage_is_found_where_it_is(db):
    for number in range(1000):
        db[b"%04d" % number] = b"v" * 100
    db.flush()
    assert db.verify().is_clean
    table = damage_table(db.path)
    with pytest.raises(slmdb.CorruptionError, match="damage found") as damage:
        db.get(b"0000")
    assert (damage.value.path, damage.value.offset) == (str(table), 0)
    report = db.verify()
    assert not report.is_clean
    assert all(isinstance(finding, slmdb.CorruptionError) for finding in report.findings)


def test_a_full_pool_is_told(path, tmp_path):
    options = {"memtable_bytes": 64 << 10, "pool_initial_bytes": 1 << 20, "pool_growth_bytes": 1 << 20}
    pool = tmp_path / "pool"
    with slmdb.DB(path, medium=f"emulated:{pool}", pool_maximum_bytes=4 << 20, **options) as db:
        assert db.stats()["medium"] == "emulated"
        with pytest.raises(slmdb.FullError) as full:
            for number in range(1_000_000):
                db[b"%0500d" % number] = b""
        assert (full.value.errno, full.value.filename) == (errno.ENOSPC, str(pool))
        assert db[b"%0500d" % 0] == b""


def test_the_system_fails(tmp_path):
    with pytest.raises(slmdb.IOError) as failed:
        slmdb.DB(tmp_path / ("long" * 100))
    assert failed.value.errno == errno.ENAMETOOLONG
    assert isinstance(failed.value, OSError)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"engine": "oak"}, slmdb.InvalidError, "slm, lab"),
        ({"compression": "zstd"}, slmdb.UnsupportedError, "zstd"),
        ({"compression": "snappy"}, ValueError, '"none", "lz4" or "zstd"'),
        ({"compression": None}, TypeError, "str"),
        ({"compaction_policy": "never"}, ValueError, '"garbage-first", "manual" or "paper"'),
        ({"medium": "tape"}, ValueError, "emulated:PATH"),
        ({"medium": "emulated:"}, ValueError, "emulated:PATH"),
        ({"memtable_bytes": 1}, slmdb.InvalidError, None),
        ({"memtable_bytes": -1}, OverflowError, None),
        ({"memtable_bytes": "1"}, TypeError, "integer"),
        ({"comparator": max}, ValueError, "comparator_name"),
        ({"comparator_name": "x"}, ValueError, "comparator"),
        ({"comparator": 5, "comparator_name": "x"}, TypeError, "function"),
        ({"no_such_option": 1}, TypeError, "no_such_option"),
    ],
)
def test_options_that_are_refused(path, options, error, text):
    with pytest.raises(error, match=text):
        slmdb.DB(path, **options)


@pytest.mark.parametrize("engine", ["slm", "lab"])
def test_every_option_is_taken(path, tmp_path, engine):
    options = {
        "engine": engine,
        "medium": f"emulated:{tmp_path / 'pool'}",
        "sync": True,
        "memory_budget_bytes": 32 << 20,
        "memtable_bytes": 1 << 20,
        "immutable_memtables_max": 3,
        "block_bytes": 8192,
        "compression": "none",
        "open_tables_max": 100,
        "compaction_policy": "manual",
        "compaction_threads": 1,
        "space_amplification_max": 2.0,
        "pool_initial_bytes": 8 << 20,
        "pool_growth_bytes": 8 << 20,
        "pool_maximum_bytes": 1 << 30,
    }
    with slmdb.DB(path, **options) as db:
        db[b"k"] = b"v"
        assert db.stats()["engine"] == engine
        assert db.stats()["memory_budget_bytes"] == 32 << 20
    other = {"slm": "lab", "lab": "slm"}[engine]
    with pytest.raises(slmdb.InvalidError, match=engine):
        slmdb.DB(path, **{**options, "engine": other})
    with slmdb.DB(path, **{**options, "engine": None}) as db:
        assert db[b"k"] == b"v"
    slmdb.destroy(path)
    assert not (tmp_path / "pool").exists()


def test_paths_are_of_every_kind(tmp_path):
    for name in (str(tmp_path / "text"), bytes(tmp_path / "bytes"), tmp_path / "p\udcffath"):
        slmdb.DB(name).close()
    assert sorted(child.name for child in tmp_path.iterdir()) == ["bytes", "p\udcffath", "text"]
    for wrong in (12, None):
        with pytest.raises(TypeError):
            slmdb.DB(wrong)
