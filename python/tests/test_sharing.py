"""Stores that have threads, memory and open files in common."""

import gc
import pathlib

import pytest

import slmdb

STORES = 20


def threads():
    """How many threads of this process are a store's."""
    names = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text())
        except OSError:
            pass  # It has ended.
    return sum(name.startswith("slmdb-") for name in names)


def test_stores_take_threads_and_memory_together_and_keep_them(tmp_path):
    gc.collect()
    before = threads()
    shared = slmdb.Shared(memory_budget_bytes=32 << 20, threads=1, open_tables_max=50)
    # The store's own budget does not count.
    options = {"shared": shared, "memtable_bytes": 1 << 20, "memory_budget_bytes": 16 << 20}
    stores = [slmdb.DB(tmp_path / str(number), **options) for number in range(STORES)]
    assert threads() - before < STORES
    del shared, options
    gc.collect()
    for number, db in enumerate(stores):
        assert db.stats()["memory_budget_bytes"] == 32 << 20
        db[b"k"] = b"%d" % number
        db.flush()
    stores.pop(0).close()
    for number, db in enumerate(stores, 1):
        assert db[b"k"] == b"%d" % number
        db.close()


def test_what_stores_share_has_defaults(path):
    with slmdb.DB(path, shared=slmdb.Shared()) as db:
        assert db.stats()["memory_budget_bytes"] == 256 << 20


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"threads": 0}, slmdb.InvalidError, "from 1 to 4 threads"),
        ({"threads": 5}, slmdb.InvalidError, "from 1 to 4 threads"),
        ({"open_tables_max": 0}, slmdb.InvalidError, "open_tables_max"),
        ({"memory_budget_bytes": -1}, OverflowError, None),
        ({"threads": "1"}, TypeError, "integer"),
        ({"sync": True}, TypeError, "sync"),
    ],
)
def test_options_that_are_refused(options, error, text):
    with pytest.raises(error, match=text):
        slmdb.Shared(**options)


def test_only_what_can_be_shared_is(path):
    with pytest.raises(TypeError, match="Shared"):
        slmdb.DB(path, shared=1)
