"""Single entries, as methods and as a dictionary has them."""

import array

import pytest

import slmdb


def test_what_is_put_is_got(db):
    db.put(b"k", b"v")
    db.put(b"", b"")
    db.put(b"\x00\xff", b"\x00" * 70_000, sync=True)
    assert db.get(b"k") == b"v"
    assert db.get(b"") == b""
    assert db.get(b"\x00\xff") == b"\x00" * 70_000
    assert db.get(b"none") is None
    assert db.get(b"none", 7) == 7
    assert db.get(b"none", default=b"d") == b"d"


def test_a_deleted_key_is_gone(db):
    db.put(b"k", b"v")
    db.delete(b"k")
    db.delete(b"k", sync=True)
    assert db.get(b"k") is None


@pytest.mark.parametrize(
    "span, left",
    [
        ({"start": b"b", "stop": b"d"}, b"ad"),
        ({"stop": b"c"}, b"cd"),
        ({"start": bytearray(b"bb")}, b"ab"),
        ({}, b""),
        ({"start": None, "stop": None, "sync": True}, b""),
        ({"start": b""}, b""),
        ({"stop": b""}, b"abcd"),
        ({"start": b"d", "stop": b"a"}, b"abcd"),
    ],
)
def test_a_deleted_range_is_gone(db, span, left):
    for key in (b"a", b"b", b"c", b"d"):
        db[key] = b""
    with db.snapshot() as before:
        db.delete_range(**span)
        assert b"".join(db) == left
        assert len(list(before)) == 4


def test_a_store_is_a_dictionary(db):
    db[b"a"] = b"1"
    db[b"b"] = b"2"
    assert db[b"a"] == b"1"
    assert b"a" in db and b"c" not in db
    assert list(db) == list(db.keys()) == [b"a", b"b"]
    assert list(reversed(db)) == [b"b", b"a"]
    assert list(db.values()) == [b"1", b"2"]
    assert list(db.items()) == [(b"a", b"1"), (b"b", b"2")]
    assert dict(db) == {b"a": b"1", b"b": b"2"}
    del db[b"a"]
    assert b"a" not in db
    with pytest.raises(KeyError) as missing:
        db[b"a"]
    assert missing.value.args == (b"a",)
    with pytest.raises(KeyError):
        del db[b"a"]


def test_conditional_writes_tell_what_they_did(db):
    assert db.insert_if_absent(b"k", b"1")
    assert not db.insert_if_absent(b"k", b"2")
    assert db[b"k"] == b"1"
    assert db.update_if_present(b"k", b"3", sync=True)
    assert db[b"k"] == b"3"
    assert not db.update_if_present(b"other", b"4")
    assert b"other" not in db


def test_whatever_has_a_buffer_will_do(db):
    for key in (b"bytes", bytearray(b"bytearray"), memoryview(b"memoryview"), array.array("B", b"array")):
        db.put(key, key)
        assert db.get(key) == bytes(key)
        assert key in db
    # A view need not be in one piece.
    db.put(memoryview(b"a-b-c")[::2], memoryview(b"123456")[::-2])
    assert db[b"abc"] == b"642"
    # What is not of bytes counts as its bytes.
    db.put(b"numbers", array.array("H", [1, 2]))
    assert len(db[b"numbers"]) == 4


@pytest.mark.parametrize("wrong", ["text", 12, None, 1.5, [1], object()])
def test_what_has_no_buffer_will_not(db, wrong):
    calls = [
        lambda: db.put(wrong, b""),
        lambda: db.put(b"", wrong),
        lambda: db.get(wrong),
        lambda: db.delete(wrong),
        lambda: db[wrong],
        lambda: wrong in db,
        lambda: db.prefixed_db(wrong),
        lambda: db.write_batch().put(wrong, b""),
        lambda: db.iterator().seek(wrong),
    ]
    # No bound is None.
    if wrong is not None:
        calls += [lambda: db.delete_range(start=wrong), lambda: db.write_batch().delete_range(stop=wrong)]
    for call in calls:
        with pytest.raises(TypeError, match="bytes"):
            call()


def test_a_key_that_is_changed_afterwards_is_as_it_was(db):
    key, value = bytearray(b"key"), bytearray(b"value")
    db.put(key, value)
    batch = db.write_batch()
    batch.put(b"batch", value)
    key[:], value[:] = b"XXX", b"XXXXX"
    batch.write()
    assert dict(db) == {b"key": b"value", b"batch": b"value"}


def test_limits_are_told(db):
    db.put(b"k" * 65_535, b"")
    with pytest.raises(slmdb.InvalidError, match="65536 bytes is longer than the limit of 65535"):
        db.put(b"k" * 65_536, b"")
    assert len(list(db)) == 1


def test_entries_outlive_the_process_that_wrote_them(path):
    with slmdb.DB(path, sync=True) as db:
        db[b"k"] = b"v"
    with slmdb.DB(path, create_if_missing=False) as db:
        assert db[b"k"] == b"v"
