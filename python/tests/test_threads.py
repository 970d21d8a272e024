"""Threads, kills and forks."""

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings

import pytest

import slmdb


class Other:
    """Another thread, which counts for as long as it may run. The interpreter forces no thread to stop for it."""

    def __init__(self):
        self.count, self.has_to_end = 0, False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.has_to_end:
            self.count += 1
            time.sleep(0)

    def __enter__(self):
        self.interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.has_to_end = True
        self.thread.join()
        sys.setswitchinterval(self.interval)

    def runs_during(self, call):
        """Whether it ran while calls were made one after the other."""
        before, end = self.count, time.monotonic() + 5
        while time.monotonic() < end:
            for _ in range(100):
                call()
            if self.count > before:
                return True
        return False


def test_another_thread_runs_while_a_call_waits(db, tmp_path):
    for number in range(1000):
        db[b"%d" % number] = b"v"
    snapshot, batch, iterator = db.snapshot(), db.write_batch(), db.iterator()
    batch[b"k"] = b"v"
    calls = {
        "get": lambda: db.get(b"1"),
        "contains": lambda: b"1" in db,
        "put": lambda: db.put(b"k", b"v"),
        "delete": lambda: db.delete(b"k"),
        "insert_if_absent": lambda: db.insert_if_absent(b"k", b"v"),
        "update_if_present": lambda: db.update_if_present(b"k", b"v"),
        "write": batch.write,
        "snapshot": db.snapshot,
        "get of a snapshot": lambda: snapshot.get(b"1"),
        "iterator": db.iterator,
        "next": lambda: (iterator.seek_to_start(), next(iterator)),
        "sync": db.sync,
        "stats": db.stats,
        "approximate": db.approximate,
    }
    with Other() as other:
        control = {b"1": b"v"}
        assert not other.runs_during(lambda: control.get(b"1"))
        assert [name for name, call in calls.items() if not other.runs_during(call)] == []


def test_threads_insert_each_key_once(db):
    inserted, started = [], threading.Barrier(8)

    def work(name):
        started.wait()
        for number in range(500):
            if db.insert_if_absent(b"%d" % number, b"%d" % name):
                inserted.append(number)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(inserted) == list(range(500))


def test_threads_share_an_iterator(db):
    for number in range(5000):
        db[b"%04d" % number] = b""
    iterator, seen, started = db.keys(), [], threading.Barrier(4)

    def work():
        started.wait()
        seen.extend(iterator)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [b"%04d" % number for number in range(5000)]


WRITER = """
import os, sys, threading, slmdb

db = slmdb.DB(sys.argv[1], memtable_bytes=256 << 10)

def work(name):
    for number in range(1_000_000):
        key = b"%d-%06d" % (name, number)
        if number % 3 == 0:
            db.put(key, key * 10)
        elif number % 3 == 1:
            with db.write_batch() as batch:
                batch.put(key, key * 10)
                batch.put(key + b"+", b"")
        else:
            assert db.insert_if_absent(key, key * 10)
        os.write(1, key + b"\\n")

for name in range(8):
    threading.Thread(target=work, args=(name,)).start()
"""


@pytest.mark.parametrize("wanted", [100, 20_000])
def test_what_threads_were_told_survives_a_kill(path, wanted):
    acknowledged = b""
    with subprocess.Popen([sys.executable, "-c", WRITER, os.fspath(path)], stdout=subprocess.PIPE) as writer:
        while acknowledged.count(b"\n") < wanted:
            some = os.read(writer.stdout.fileno(), 1 << 16)
            assert some, "the writer has ended"
            acknowledged += some
        writer.send_signal(signal.SIGKILL)
        acknowledged += writer.stdout.read()
    keys = acknowledged.split(b"\n")[:-1]
    assert len(set(keys)) >= wanted
    if wanted > 1000:
        assert {key[:1] for key in keys} == {b"%d" % name for name in range(8)}
    with slmdb.DB(path, create_if_missing=False) as db:
        assert [key for key in keys if db.get(key) != key * 10] == []
        # A batch is there as a whole or not at all.
        for key in db.keys():
            name, number = key.rstrip(b"+").split(b"-")
            assert (int(number) % 3 == 1) == (b"%b-%b+" % (name, number) in db)
        assert db.verify().is_clean


def in_child(work):
    """Does work in a forked child, and returns its exit code."""
    with warnings.catch_warnings():
        # Forking with threads is what this is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if (ended := os.waitpid(child, os.WNOHANG)) != (0, 0):
            return os.waitstatus_to_exitcode(ended[1])
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "it hangs"


def test_a_forked_child_can_not_use_the_store_and_does_no_harm(path, tmp_path):
    holder = [slmdb.DB(path)]
    db = holder[0]
    db[b"k"] = b"v"
    things = [db.snapshot(), db.iterator(), db.write_batch()]

    def work():
        snapshot, iterator, batch = things
        calls = [
            lambda: db.get(b"k"),
            lambda: db.put(b"k", b"w"),
            db.iterator,
            lambda: snapshot.get(b"k"),
            lambda: next(iterator),
            lambda: batch.put(b"k", b"w"),
            batch.write,
            db.stats,
        ]
        for call in calls:
            with pytest.raises(slmdb.ClosedError, match="forked"):
                call()
        # The child lets go of everything, and opens stores of its own.
        snapshot.close(), iterator.close(), db.close()
        things.clear(), holder.clear()
        with slmdb.DB(tmp_path / "other") as other:
            other[b"k"] = b"v"
            assert dict(other) == {b"k": b"v"}
        with pytest.raises(slmdb.LockedError):
            slmdb.DB(path)

    assert in_child(work) == 0
    db[b"l"] = b"w"
    assert dict(db) == {b"k": b"v", b"l": b"w"}
    db.close()
    with slmdb.DB(path) as db:
        assert dict(db) == {b"k": b"v", b"l": b"w"}


def test_a_forked_child_can_not_use_what_was_shared_and_does_no_harm(path, tmp_path):
    holder = [slmdb.Shared()]
    # So that there are threads, and no store needs them.
    slmdb.DB(path, shared=holder[0]).close()

    def work():
        with pytest.raises(slmdb.ClosedError, match="forked"):
            slmdb.DB(tmp_path / "other", shared=holder[0])
        holder.clear()
        with slmdb.DB(tmp_path / "other", shared=slmdb.Shared()) as other:
            other[b"k"] = b"v"

    assert in_child(work) == 0
    with slmdb.DB(path, shared=holder[0]) as db:
        db[b"k"] = b"v"
        db.flush()


FORKED = """
import os, sys, slmdb
db = slmdb.DB(sys.argv[1])
iterator = db.iterator()
db[b"k"] = b"v"
child = os.fork()
if child:
    assert os.waitpid(child, 0) == (child, 0)
    db[b"l"] = b"w"
    assert list(db) == [b"k", b"l"]
"""


def test_a_forked_child_ends_as_it_should(path):
    command = [sys.executable, "-W", "ignore", "-c", FORKED, os.fspath(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    with slmdb.DB(path) as db:
        assert list(db) == [b"k", b"l"]
