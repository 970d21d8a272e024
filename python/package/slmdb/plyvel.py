"""plyvel's interface on slmdb: ``import slmdb.plyvel as plyvel``.

It has plyvel 1.5's names and meanings. A store of LevelDB's can't be opened; copy its entries. What differs:

- Keys have at most 65,535 bytes, and values 256 MiB. More is InvalidError, an Error and a ValueError.
- ``write_buffer_size``, ``max_open_files``, ``block_size`` and ``lru_cache_size`` set what does the same in slmdb.
  ``compression="snappy"`` stands for LZ4. ``paranoid_checks``, ``block_restart_interval``, ``max_file_size``,
  ``bloom_filter_bits``, ``verify_checksums`` and ``fill_cache`` change nothing: every block that is read is checked, the
  index is exact, and the cache sees to itself.
- With a comparator, prefixes are refused, instead of giving some of the keys.
- With ``include_stop``, ``seek`` beyond the stop key goes behind that key, not in front of it.
- Closing a store while other threads use it is safe. After a fork the store is of no use in the child, and says so.
- Anything with a buffer will do for a key, too. A store can also be used like a dictionary, but iterating it gives pairs.
"""

import contextlib
import errno
import operator
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Optional, Union

import slmdb
from slmdb import CorruptionError, Error, IOError, Iterator, WriteBatch

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

__all__ = [
    "DB",
    "CorruptionError",
    "Error",
    "IOError",
    "IteratorInvalidError",
    "__leveldb_version__",
    "__version__",
    "destroy_db",
    "repair_db",
]

#: The version of plyvel whose interface this is.
__version__ = "1.5.1"
#: The version of LevelDB whose interface that is.
__leveldb_version__ = "1.23"

_MIB = 1 << 20
_FILES_AT_LEVEL = b"leveldb.num-files-at-level"
_LEVELS = 7
_Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
_Comparator = Callable[[bytes, bytes], int]


class IteratorInvalidError(Error):
    """A RawIterator is on no entry."""


class RawIterator:
    """A position on an entry, or on none. ``raw_iterator`` makes it."""

    # The place of `_entries` is behind `_item`, if there is one.
    def __init__(self, entries: "Iterator[tuple[bytes, bytes]]") -> None:
        self._entries = entries
        self._item: Optional[tuple[bytes, bytes]] = None

    def valid(self) -> bool:
        """Whether it is on an entry."""
        self._check_open()
        return self._item is not None

    def seek_to_first(self) -> None:
        """Moves to the first entry."""
        self._entries.seek_to_start()
        self._item = next(self._entries, None)

    def seek_to_last(self) -> None:
        """Moves to the last entry."""
        self._entries.seek_to_stop()
        self._step_back()

    def seek(self, target: "Buffer") -> None:
        """Moves to the first entry whose key is at or after ``target``."""
        self._entries.seek(target)
        self._item = next(self._entries, None)

    def next(self) -> None:
        """Moves to the next entry."""
        self.item()
        self._item = next(self._entries, None)

    def prev(self) -> None:
        """Moves to the entry before."""
        self.item()
        self._entries.prev()
        self._step_back()

    def key(self) -> bytes:
        """The key of the entry."""
        return self.item()[0]

    def value(self) -> bytes:
        """The value of the entry."""
        return self.item()[1]

    def item(self) -> tuple[bytes, bytes]:
        """The key and the value of the entry. IteratorInvalidError if it is on none."""
        self._check_open()
        if self._item is None:
            raise IteratorInvalidError("the iterator is on no entry; move it to one with a seek")
        return self._item

    def close(self) -> None:
        """Gives back what it keeps of the store."""
        self._entries.close()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _step_back(self) -> None:
        try:
            self._item = self._entries.prev()
            next(self._entries)
        except StopIteration:
            self._item = None

    def _check_open(self) -> None:
        if self._entries.closed:
            raise slmdb.ClosedError("the iterator or its store is closed; open another")


class _Reads(slmdb.Reader):
    """How plyvel reads."""

    def get(
        self, key: "Buffer", default: Any = None, *, verify_checksums: Any = False, fill_cache: Any = True
    ) -> Any:
        """The value of a key, or ``default``."""
        return super().get(key, default)

    def iterator(
        self, *, verify_checksums: Any = False, fill_cache: Any = True, **span: Any
    ) -> "Iterator[Any]":
        """An iterator over the entries of a range, see ``slmdb.Reader.iterator``."""
        return super().iterator(**span)

    def __iter__(self) -> "Iterator[Any]":
        return self.iterator()

    def raw_iterator(self, *, verify_checksums: Any = False, fill_cache: Any = True) -> RawIterator:
        """A position that moves over all entries."""
        return RawIterator(super().iterator())


class _Writes(_Reads, slmdb.Writer):
    """How plyvel writes."""

    def write_batch(self, *, transaction: bool = False, sync: Optional[bool] = False) -> WriteBatch:
        """A batch. An exception in its ``with`` block discards it only with ``transaction``."""
        return super().write_batch(transaction=transaction, sync=sync)

    def snapshot(self) -> "Snapshot":
        """The store as it is now."""
        return Snapshot(self)

    def prefixed_db(self, prefix: "Buffer") -> "PrefixedDB":
        """The entries whose keys begin with ``prefix``."""
        return PrefixedDB(self, prefix)


class PrefixedDB(_Writes, slmdb.PrefixedDB):
    """The entries of a store whose keys begin with a prefix. ``prefixed_db`` makes it."""


class Snapshot(_Reads, slmdb.Snapshot):
    """The store as it was at one moment. ``snapshot`` makes it."""

    def release(self) -> None:
        """The same as ``close``."""
        self.close()


class DB(_Writes, slmdb.DB):
    """An open store. The arguments are plyvel's."""

    _name: _Path

    def __new__(
        cls,
        name: _Path,
        *,
        create_if_missing: bool = False,
        error_if_exists: bool = False,
        paranoid_checks: Optional[bool] = None,
        write_buffer_size: Optional[int] = None,
        max_open_files: Optional[int] = None,
        lru_cache_size: Optional[int] = None,
        block_size: Optional[int] = None,
        block_restart_interval: Optional[int] = None,
        max_file_size: Optional[int] = None,
        compression: Union[str, bytes, None] = "snappy",
        bloom_filter_bits: int = 0,
        comparator: Optional[_Comparator] = None,
        comparator_name: Optional[bytes] = None,
    ) -> "Self":
        for ignored in (block_restart_interval, max_file_size, bloom_filter_bits):
            _whole(ignored)
        memtable_bytes = _within(write_buffer_size, 64 << 10, 1 << 30)
        try:
            db = super().__new__(
                cls,
                name,
                create_if_missing=create_if_missing,
                error_if_exists=error_if_exists,
                memtable_bytes=memtable_bytes,
                open_tables_max=_within(max_open_files, 64, 50_000),
                memory_budget_bytes=_memory_budget_bytes(lru_cache_size, memtable_bytes),
                block_bytes=_within(block_size, 1 << 10, _MIB),
                compression=_compression(compression),
                comparator=comparator,
                comparator_name=_comparator_name(comparator_name),
            )
        except slmdb.InvalidError as error:
            # LevelDB writes to the directory before it looks for a store there.
            if os.path.isdir(name) and not os.access(name, os.W_OK):
                message = f"can't write to the directory [{os.fsdecode(name)}]; change its permissions"
                raise IOError(errno.EACCES, message, name) from error
            raise
        db._name = name
        return db

    @property
    def name(self) -> _Path:
        """The directory, as it was given."""
        return self._name

    def get_property(self, name: bytes) -> Optional[bytes]:
        """One of LevelDB's properties that mean something here, or None.

        Those are ``leveldb.stats``, ``leveldb.sstables``, ``leveldb.approximate-memory-usage`` and
        ``leveldb.num-files-at-level<N>``. All table files count as level 0.
        """
        if not isinstance(name, bytes):
            raise TypeError(f"the name of a property is bytes, but this is of type {type(name).__name__}")
        if name == b"leveldb.stats":
            return "".join(f"{key}: {value}\n" for key, value in self.stats().items()).encode()
        if name == b"leveldb.sstables":
            return "".join(f"{file}\n" for file in self.table_files()).encode()
        if name == b"leveldb.approximate-memory-usage":
            return b"%d" % self.stats()["memory_bytes"]
        level = name[len(_FILES_AT_LEVEL) :]
        if name.startswith(_FILES_AT_LEVEL) and level.isdigit() and int(level) < _LEVELS:
            return b"%d" % (0 if int(level) else self.stats()["table_files"])
        self.stats()  # a closed store has no properties
        return None

    def approximate_size(self, start: "Buffer", stop: "Buffer") -> int:
        """The bytes that a range takes in table files, about."""
        return self.approximate(start=start, stop=stop).table_bytes

    def approximate_sizes(self, *ranges: "tuple[Buffer, Buffer]") -> list[int]:
        """The same for several ranges, each a pair of start and stop."""
        return [self.approximate_size(start, stop) for start, stop in ranges]


def repair_db(
    name: _Path,
    *,
    comparator: Optional[_Comparator] = None,
    comparator_name: Optional[bytes] = None,
    **_options: Any,
) -> None:
    """Makes a store whole again. ``slmdb.repair`` also tells what could not be saved. Other options change nothing."""
    slmdb.repair(name, comparator=comparator, comparator_name=_comparator_name(comparator_name))


def destroy_db(name: _Path) -> None:
    """Removes a store. A missing one is no error."""
    with contextlib.suppress(slmdb.InvalidError):
        slmdb.destroy(name)


def _whole(number: Optional[int]) -> Optional[int]:
    return None if number is None else operator.index(number)


def _within(number: Optional[int], smallest: int, largest: int) -> Optional[int]:
    number = _whole(number)
    return None if number is None else min(max(number, smallest), largest)


def _memory_budget_bytes(cache_bytes: Optional[int], memtable_bytes: Optional[int]) -> Optional[int]:
    """LevelDB's number is for the cache of blocks alone, slmdb's for MemTables and index, too."""
    cache_bytes = _whole(cache_bytes)
    if cache_bytes is None:
        return None
    return max(256 * _MIB, cache_bytes + 3 * (memtable_bytes or 64 * _MIB))


def _compression(name: Union[str, bytes, None]) -> str:
    if isinstance(name, bytes):
        name = name.decode()
    if name is None:
        return "none"
    if not isinstance(name, str):
        raise TypeError(f"`compression` is None or a string, but this is of type {type(name).__name__}")
    if name != "snappy":
        raise ValueError(f"`compression` is None or 'snappy', not {name!r}")
    return "lz4"


def _comparator_name(name: Optional[bytes]) -> Optional[str]:
    if name is not None and not isinstance(name, bytes):
        raise TypeError(f"`comparator_name` is bytes, but this is of type {type(name).__name__}")
    return None if name is None else name.decode()
