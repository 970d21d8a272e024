"""What is closed raises, and never crashes; what was open at the end is closed."""

import gc
import os
import subprocess
import sys
import threading

import pytest

import slmdb


def test_everything_of_a_closed_store_raises(path):
    db = slmdb.DB(path)
    db[b"a"] = db[b"b"] = b""
    part, snapshot, iterator, batch = db.prefixed_db(b"a"), db.snapshot(), db.iterator(), db.write_batch()
    of_snapshot = snapshot.iterator()
    # One of them has read ahead.
    next(iterator)
    next(iterator)
    iterator.seek_to_start()
    next(iterator)
    db.close()
    assert db.closed and snapshot.closed and iterator.closed and of_snapshot.closed
    calls = [
        lambda: db.get(b"a"),
        lambda: db[b"a"],
        lambda: b"a" in db,
        lambda: db.put(b"a", b""),
        lambda: db.delete(b"a"),
        db.delete_range,
        lambda: db.insert_if_absent(b"a", b""),
        lambda: db.update_if_present(b"a", b""),
        lambda: list(db),
        db.iterator,
        db.snapshot,
        db.write_batch,
        db.sync,
        db.flush,
        db.compact_range,
        db.stats,
        db.table_files,
        db.verify,
        db.approximate,
        lambda: db.checkpoint(path / "copy"),
        lambda: db.prefixed_db(b"p"),
        lambda: part.get(b""),
        lambda: part.put(b"", b""),
        part.iterator,
        lambda: snapshot.get(b"a"),
        snapshot.iterator,
        lambda: snapshot.sequence_number,
        lambda: next(iterator),
        iterator.prev,
        lambda: iterator.seek(b"a"),
        iterator.seek_to_start,
        iterator.seek_to_stop,
        lambda: next(of_snapshot),
        lambda: batch.put(b"a", b""),
        lambda: batch.delete(b"a"),
        batch.delete_range,
        batch.write,
        batch.clear,
        lambda: len(batch),
        lambda: batch.append(batch),
    ]
    for call in calls:
        with pytest.raises(slmdb.ClosedError, match="closed"):
            call()
    for close in (db.close, snapshot.close, iterator.close):
        close()
    assert "closed" in repr(db)


def test_closing_gives_the_store_free_whatever_is_still_referred_to(path):
    with slmdb.DB(path) as db:
        db[b"k"] = b"v"
        kept = db.iterator(), db.snapshot(), db.snapshot().iterator(), db.prefixed_db(b"k")
    with slmdb.DB(path) as db:
        assert dict(db) == {b"k": b"v"}
    assert len(kept) == 4


def test_an_iterator_keeps_its_store_open(path):
    iterator = slmdb.DB(path).iterator()
    gc.collect()
    assert list(iterator) == []
    with pytest.raises(slmdb.LockedError):
        slmdb.DB(path)
    del iterator
    gc.collect()
    slmdb.DB(path).close()


def test_a_closed_iterator_or_snapshot_raises_alone(db):
    db[b"k"] = b"v"
    with db.iterator() as iterator, db.snapshot() as snapshot:
        of_snapshot = snapshot.iterator()
    assert db.stats()["open_snapshots"] == 0
    for call in (lambda: next(iterator), lambda: snapshot.get(b"k"), snapshot.iterator):
        with pytest.raises(slmdb.ClosedError):
            call()
    assert list(of_snapshot) == [(b"k", b"v")]


def test_an_exception_in_a_batch_of_a_closed_store_is_raised(db):
    with pytest.raises(ZeroDivisionError):
        with db.write_batch():
            db.close()
            1 / 0


def test_closing_while_threads_work(path):
    for _ in range(10):
        db = slmdb.DB(path)
        db[b"k"] = b"v"
        started, failures = threading.Barrier(7), []

        def work(act):
            started.wait()
            try:
                while True:
                    act()
            except slmdb.ClosedError:
                pass
            except BaseException as error:  # pragma: no cover
                failures.append(error)

        snapshot, iterator = db.snapshot(), db.iterator()
        acts = [
            lambda: db.put(b"k", b"v"),
            lambda: db.get(b"k"),
            lambda: list(db),
            lambda: snapshot.get(b"k"),
            lambda: (iterator.seek_to_start(), next(iterator)),
            lambda: db.snapshot().iterator(),
        ]
        threads = [threading.Thread(target=work, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        started.wait()
        db.close()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert failures == []


AT_THE_END = """
import sys, slmdb
{keep} = slmdb.DB(sys.argv[1], comparator=lambda a, b: (a > b) - (a < b), comparator_name="test.order")
for number in range(100):
    {keep}[b"%d" % number] = b""
{iterator} = iter({keep})
next({iterator})
"""


@pytest.mark.parametrize("keep", ["db", "sys.db"])
def test_a_store_is_closed_when_the_interpreter_ends(path, keep):
    program = AT_THE_END.format(keep=keep, iterator=keep + "_iterator")
    ended = subprocess.run(
        [sys.executable, "-c", program, os.fspath(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
