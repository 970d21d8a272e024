"""Orders of keys that Python defines. Whatever waits has given up the interpreter's lock, or these hang."""

import threading

import pytest

import slmdb


def backwards(left, right):
    return (left < right) - (left > right)


OPTIONS = {"comparator": backwards, "comparator_name": "test.backwards"}


def test_keys_are_in_the_comparators_order(path):
    with slmdb.DB(path, **OPTIONS) as db:
        for number in range(1000):
            db[b"%03d" % number] = b"%d" % number
        # The store's own threads compare keys, too.
        db.flush()
        db.compact_range()
        assert list(db) == [b"%03d" % number for number in reversed(range(1000))]
        assert list(db.keys(start=b"002", include_start=False)) == [b"001", b"000"]
        assert next(db.keys(stop=b"500", reverse=True)) == b"501"
        iterator = db.keys(start=b"900", stop=b"100")
        iterator.seek(b"950")
        assert next(iterator) == b"900"
        iterator.seek(b"000")
        assert iterator.prev() == b"101"
        db.delete_range(start=b"500", stop=b"400")
        assert list(db.keys(start=b"501", stop=b"399")) == [b"501", b"400"]
        db.delete_range(start=b"400", stop=b"500")
        assert len(list(db)) == 900
        assert db.verify().is_clean
    with pytest.raises(slmdb.UnsupportedError, match="test.backwards"):
        slmdb.DB(path)
    assert slmdb.repair(path, **OPTIONS).losses == []
    with slmdb.DB(path, **OPTIONS) as db:
        assert next(iter(db)) == b"999"


def test_prefixes_are_refused(path):
    with slmdb.DB(path, **OPTIONS) as db:
        for refused in (lambda: db.iterator(prefix=b"p"), lambda: db.prefixed_db(b"p")):
            with pytest.raises(slmdb.InvalidError, match="prefix"):
                refused()


def test_threads_and_a_comparator(path):
    with slmdb.DB(path, memtable_bytes=64 << 10, **OPTIONS) as db:

        def work(name):
            for number in range(1000):
                db[b"%d-%04d" % (name, number)] = b"v" * 50
                if number % 100 == 0:
                    list(db.keys(start=b"%d-9" % name, stop=b"%d-" % name))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        assert len(list(db)) == 4000


def test_a_comparator_that_raises_is_told_from_then_on(path):
    wrong = []

    def comparator(left, right):
        if wrong:
            raise ZeroDivisionError
        return backwards(left, right)

    db = slmdb.DB(path, comparator=comparator, comparator_name="test.backwards")
    db[b"a"] = db[b"b"] = b""
    wrong.append(True)
    with pytest.raises(slmdb.ComparatorError, match="repair the store") as raised:
        db[b"c"] = b""
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    wrong.clear()
    with pytest.raises(slmdb.ComparatorError):
        db.get(b"a")
    db.close()
    slmdb.repair(path, **OPTIONS)
    with slmdb.DB(path, **OPTIONS) as db:
        assert list(db)[-2:] == [b"b", b"a"]
