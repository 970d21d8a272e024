"""Snapshots, and the parts of a store that have a prefix."""

import pytest

import slmdb


def test_a_snapshot_stays_as_it_was(db):
    db[b"a"] = b"1"
    with db.snapshot() as snapshot:
        number = snapshot.sequence_number
        db[b"a"] = b"2"
        db[b"b"] = b"3"
        db.flush()
        assert snapshot.get(b"a") == snapshot[b"a"] == b"1"
        assert b"b" not in snapshot and snapshot.get(b"b", b"d") == b"d"
        assert dict(snapshot) == {b"a": b"1"}
        assert list(snapshot.items(reverse=True)) == [(b"a", b"1")]
        assert db.snapshot().sequence_number == number + 2
    assert snapshot.closed
    assert db.stats()["open_snapshots"] == 0
    assert list(slmdb.Snapshot(db)) == [b"a", b"b"]


def test_a_part_has_its_own_keys(db):
    part = db.prefixed_db(b"p/")
    db[b"o"] = db[b"p"] = db[b"p0"] = b"outside"
    part[b"a"] = b"1"
    part.put(b"b", b"2", sync=True)
    assert (part.prefix, part.db) == (b"p/", db)
    assert dict(part) == {b"a": b"1", b"b": b"2"}
    assert db[b"p/a"] == b"1"
    assert list(part.keys(reverse=True)) == [b"b", b"a"]
    assert list(part.keys(start=b"a", include_start=False)) == [b"b"]
    assert list(part.keys(stop=b"b")) == [b"a"]
    assert list(part.keys(prefix=b"b")) == [b"b"]
    assert b"a" in part and b"p/a" not in part
    assert not part.insert_if_absent(b"a", b"3")
    with part.write_batch() as batch:
        batch.put(b"c", b"3")
        batch.delete(b"b")
    assert list(part.values()) == [b"1", b"3"]
    iterator = part.iterator(include_value=False)
    iterator.seek(b"b")
    assert next(iterator) == b"c"
    del part[b"a"]
    assert b"p/a" not in db
    assert len(list(db)) == 4


def test_a_part_deletes_ranges_of_its_own_keys_alone(db):
    outside = [b"", b"o", b"p", b"p.\xff", b"p0", b"q"]
    for span, left in (
        ({}, []),
        ({"start": b"b"}, [b"", b"a"]),
        ({"stop": b"b"}, [b"b", b"c"]),
        ({"start": b"a", "stop": b"c"}, [b"", b"c"]),
        ({"start": b"c", "stop": b"a"}, [b"", b"a", b"b", b"c"]),
    ):
        part = db.prefixed_db(b"p").prefixed_db(b"/")
        for delete in (part.delete_range, lambda **span: delete_by_batch(part, span)):
            for key in outside:
                db[key] = b""
            for key in (b"", b"a", b"b", b"c"):
                part[key] = b""
            delete(**span)
            assert list(part) == left
            assert [key for key in db if not key.startswith(b"p/")] == outside


def delete_by_batch(part, span):
    with part.write_batch() as batch:
        batch.delete_range(**span)


def test_parts_have_parts_and_snapshots(db):
    part = db.prefixed_db(b"a")
    inner = part.prefixed_db(bytearray(b"b"))
    inner[b"c"] = b"v"
    assert (inner.prefix, inner.db) == (b"ab", db)
    assert dict(db) == {b"abc": b"v"}
    snapshot = inner.snapshot()
    del inner[b"c"]
    assert dict(snapshot) == {b"c": b"v"}
    assert snapshot[b"c"] == b"v"
    assert slmdb.PrefixedDB(part, b"b").prefix == b"ab"


def test_the_last_part_has_an_end(db):
    part = db.prefixed_db(b"\xff\xff")
    part[b"k"] = b""
    db[b"\xff"] = b""
    assert list(part) == [b"k"]
    assert list(part.keys(reverse=True)) == [b"k"]
    part.delete_range()
    assert list(db) == [b"\xff"]


def test_only_stores_have_parts(db):
    with pytest.raises(TypeError):
        slmdb.PrefixedDB(db.snapshot(), b"p")
    with pytest.raises(TypeError):
        slmdb.Snapshot(db.snapshot())
    for name in ("Reader", "Writer", "Iterator", "WriteBatch"):
        with pytest.raises(TypeError):
            getattr(slmdb, name)()
