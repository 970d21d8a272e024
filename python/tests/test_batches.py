"""Batches."""

import pytest

import slmdb


def test_a_batch_takes_effect_when_it_is_written(db):
    db[b"old"] = b""
    with db.write_batch() as batch:
        batch.put(b"a", b"1")
        batch[b"b"] = b"2"
        batch.put(b"b", b"3")
        batch.delete(b"old")
        del batch[b"none"]
        assert len(batch) == 5
        assert dict(db) == {b"old": b""}
    assert dict(db) == {b"a": b"1", b"b": b"3"}


def test_a_batch_deletes_of_a_range_what_came_before(db):
    db[b"a"] = db[b"c"] = b"old"
    with db.write_batch(sync=True) as batch:
        batch[b"b"] = b"1"
        batch.delete_range(start=b"a", stop=b"c")
        batch[b"a"] = b"2"
        assert len(batch) == 3
        with pytest.raises(slmdb.InvalidError, match="longer than the limit"):
            batch.delete_range(stop=b"k" * 65_536)
        assert dict(db) == {b"a": b"old", b"c": b"old"}
    assert dict(db) == {b"a": b"2", b"c": b"old"}
    with db.write_batch() as batch:
        batch.delete_range()
    assert list(db) == []


def test_an_exception_discards_a_batch(db):
    with pytest.raises(ZeroDivisionError):
        with db.write_batch() as batch:
            batch[b"k"] = b"v"
            1 / 0
    assert b"k" not in db
    with pytest.raises(ZeroDivisionError):
        with db.write_batch(transaction=False) as batch:
            batch[b"k"] = b"v"
            1 / 0
    assert b"k" in db


def test_batches_are_appended(db):
    whole, part = db.write_batch(), db.prefixed_db(b"p-").write_batch(sync=True)
    whole.put(b"a", b"1")
    part.put(b"b", b"2")
    part.delete(b"c")
    part.delete_range(start=b"d")
    whole.append(part)
    whole.append(whole)
    assert len(whole) == 8
    assert whole.approximate_size() > part.approximate_size() > 0
    db[b"p-c"] = db[b"p-d"] = db[b"q"] = b"3"
    whole.write()
    assert dict(db) == {b"a": b"1", b"p-b": b"2", b"q": b"3"}


def test_a_batch_is_cleared_and_written_again(db):
    batch = db.write_batch()
    batch[b"k"] = b"v"
    batch.write()
    del db[b"k"]
    batch.write()
    assert b"k" in db
    batch.clear()
    assert len(batch) == 0
    del db[b"k"]
    batch.write()
    assert b"k" not in db


def test_a_change_that_is_refused_leaves_the_batch(db):
    batch = db.write_batch()
    batch[b"k"] = b"v"
    with pytest.raises(slmdb.InvalidError, match="longer than the limit"):
        batch.put(b"k" * 65_536, b"")
    batch.write()
    assert dict(db) == {b"k": b"v"}
