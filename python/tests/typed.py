"""A sample that mypy checks: `mypy --strict` accepts every line, and wants every `type: ignore`."""

from typing import Optional

from typing_extensions import assert_type

import slmdb
from slmdb import plyvel


def read(source: slmdb.Reader) -> Optional[bytes]:
    assert_type(source.get(b"k"), Optional[bytes])
    assert_type(source.get(bytearray(b"k"), b"d"), bytes)
    assert_type(source[memoryview(b"k")], bytes)
    for key in source:
        assert_type(key, bytes)
    for key, value in source.items(start=b"a", reverse=True):
        assert_type(value, bytes)
    assert_type(next(source.iterator()), tuple[bytes, bytes])
    assert_type(next(source.iterator(include_value=False)), bytes)
    source.get("k")  # type: ignore[call-overload]
    source.put(b"k", b"v")  # type: ignore[attr-defined]
    return source.get(b"k")


def write(path: str) -> None:
    with slmdb.DB(path, sync=True, medium="dram", comparator=None) as db:
        assert_type(db, slmdb.DB)
        db[b"k"] = b"v"
        db.put(b"k", "v")  # type: ignore[arg-type]
        assert_type(db.insert_if_absent(b"k", b"v", sync=False), bool)
        db.delete_range(start=bytearray(b"k"), sync=True)
        db.delete_range(stop="k")  # type: ignore[arg-type]
        with db.write_batch() as batch:
            batch.put(b"k", b"v")
            batch.delete_range(stop=b"k")
        with db.snapshot() as snapshot:
            read(snapshot)
        read(db.prefixed_db(b"p"))
        for finding in db.verify(progress=lambda done, total: print(done / total)).findings:
            assert_type(finding, slmdb.Error)
    slmdb.DB(path, medium=1)  # type: ignore[arg-type]
    slmdb.DB(path, shared=slmdb.Shared(threads=1))
    slmdb.DB(path, shared=1)  # type: ignore[arg-type]


def write_as_plyvel(path: str) -> None:
    db = plyvel.DB(path, create_if_missing=True)
    db.put(b"k", b"v", sync=True)
    for key, value in db.iterator(prefix=b"k"):
        print(key, value)
