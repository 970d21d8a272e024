from collections.abc import Callable
from os import PathLike
from types import TracebackType
from typing import Any, Generic, Literal, Optional, TypeVar, Union, final, overload

from typing_extensions import Buffer, Self, TypeAlias

from ._errors import Error

_Path: TypeAlias = Union[str, bytes, PathLike[str], PathLike[bytes]]
_Progress: TypeAlias = Callable[[int, int], object]
_Comparator: TypeAlias = Callable[[bytes, bytes], int]
_Default = TypeVar("_Default")
_Item_co = TypeVar("_Item_co", covariant=True)

__all__ = [
    "DB",
    "Approximate",
    "Destroyed",
    "Iterator",
    "PrefixedDB",
    "Reader",
    "RepairReport",
    "Shared",
    "Snapshot",
    "VerifyReport",
    "WriteBatch",
    "Writer",
    "__version__",
    "_close_all",
    "_forked",
    "destroy",
    "repair",
]

__version__: str

class Reader:
    @overload
    def get(self, key: Buffer, default: None = None) -> Optional[bytes]: ...
    @overload
    def get(self, key: Buffer, default: _Default) -> Union[bytes, _Default]: ...
    def __getitem__(self, key: Buffer, /) -> bytes: ...
    def __contains__(self, key: Buffer, /) -> bool: ...
    @overload
    def iterator(
        self,
        *,
        start: Optional[Buffer] = None,
        stop: Optional[Buffer] = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Optional[Buffer] = None,
        reverse: bool = False,
        include_key: Literal[True] = True,
        include_value: Literal[True] = True,
    ) -> Iterator[tuple[bytes, bytes]]: ...
    @overload
    def iterator(
        self,
        *,
        start: Optional[Buffer] = None,
        stop: Optional[Buffer] = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Optional[Buffer] = None,
        reverse: bool = False,
        include_key: Literal[False],
        include_value: Literal[True] = True,
    ) -> Iterator[bytes]: ...
    @overload
    def iterator(
        self,
        *,
        start: Optional[Buffer] = None,
        stop: Optional[Buffer] = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Optional[Buffer] = None,
        reverse: bool = False,
        include_key: Literal[True] = True,
        include_value: Literal[False],
    ) -> Iterator[bytes]: ...
    @overload
    def iterator(
        self,
        *,
        start: Optional[Buffer] = None,
        stop: Optional[Buffer] = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Optional[Buffer] = None,
        reverse: bool = False,
        include_key: bool = True,
        include_value: bool = True,
    ) -> Iterator[Any]: ...
    def keys(
        self,
        *,
        start: Optional[Buffer] = None,
        stop: Optional[Buffer] = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Optional[Buffer] = None,
        reverse: bool = False,
    ) -> Iterator[bytes]: ...
    def values(
        self,
        *,
        start: Optional[Buffer] = None,
        stop: Optional[Buffer] = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Optional[Buffer] = None,
        reverse: bool = False,
    ) -> Iterator[bytes]: ...
    def items(
        self,
        *,
        start: Optional[Buffer] = None,
        stop: Optional[Buffer] = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Optional[Buffer] = None,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def __reversed__(self) -> Iterator[bytes]: ...

class Writer(Reader):
    def put(self, key: Buffer, value: Buffer, *, sync: Optional[bool] = None) -> None: ...
    def __setitem__(self, key: Buffer, value: Buffer, /) -> None: ...
    def delete(self, key: Buffer, *, sync: Optional[bool] = None) -> None: ...
    def delete_range(
        self, *, start: Optional[Buffer] = None, stop: Optional[Buffer] = None, sync: Optional[bool] = None
    ) -> None: ...
    def __delitem__(self, key: Buffer, /) -> None: ...
    def insert_if_absent(self, key: Buffer, value: Buffer, *, sync: Optional[bool] = None) -> bool: ...
    def update_if_present(self, key: Buffer, value: Buffer, *, sync: Optional[bool] = None) -> bool: ...
    def write_batch(self, *, transaction: bool = True, sync: Optional[bool] = None) -> WriteBatch: ...
    def snapshot(self) -> Snapshot: ...
    def prefixed_db(self, prefix: Buffer) -> PrefixedDB: ...

class DB(Writer):
    def __new__(
        cls,
        path: _Path,
        *,
        create_if_missing: bool = True,
        error_if_exists: bool = False,
        read_only: bool = False,
        engine: Optional[str] = None,
        medium: Optional[str] = None,
        caches_are_persistent: bool = False,
        sync: bool = False,
        comparator: Optional[_Comparator] = None,
        comparator_name: Optional[str] = None,
        memory_budget_bytes: Optional[int] = None,
        memtable_bytes: Optional[int] = None,
        immutable_memtables_max: Optional[int] = None,
        block_bytes: Optional[int] = None,
        compression: str = "lz4",
        open_tables_max: Optional[int] = None,
        compaction_policy: str = "garbage-first",
        compaction_threads: Optional[int] = None,
        space_amplification_max: Optional[float] = None,
        pool_initial_bytes: Optional[int] = None,
        pool_growth_bytes: Optional[int] = None,
        pool_maximum_bytes: Optional[int] = None,
        shared: Optional[Shared] = None,
    ) -> Self: ...
    @property
    def path(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def sync(self) -> None: ...
    def flush(self) -> None: ...
    def compact_range(self, *, start: Optional[Buffer] = None, stop: Optional[Buffer] = None) -> None: ...
    def approximate(self, *, start: Optional[Buffer] = None, stop: Optional[Buffer] = None) -> Approximate: ...
    def checkpoint(self, directory: _Path) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def table_files(self) -> list[dict[str, Any]]: ...
    def verify(self, *, progress: Optional[_Progress] = None) -> VerifyReport: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        _kind: Optional[type[BaseException]],
        _raised: Optional[BaseException],
        _trace: Optional[TracebackType],
        /,
    ) -> None: ...

class PrefixedDB(Writer):
    def __new__(cls, db: Writer, prefix: Buffer) -> Self: ...
    @property
    def db(self) -> DB: ...
    @property
    def prefix(self) -> bytes: ...

class Snapshot(Reader):
    def __new__(cls, db: Writer) -> Self: ...
    @property
    def sequence_number(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        _kind: Optional[type[BaseException]],
        _raised: Optional[BaseException],
        _trace: Optional[TracebackType],
        /,
    ) -> None: ...

@final
class Shared:
    def __new__(
        cls,
        *,
        memory_budget_bytes: Optional[int] = None,
        threads: Optional[int] = None,
        open_tables_max: Optional[int] = None,
    ) -> Self: ...

@final
class Iterator(Generic[_Item_co]):
    @classmethod
    def __class_getitem__(cls, item: Any) -> Any: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> _Item_co: ...
    def prev(self) -> _Item_co: ...
    def seek(self, target: Buffer) -> None: ...
    def seek_to_start(self) -> None: ...
    def seek_to_stop(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        _kind: Optional[type[BaseException]],
        _raised: Optional[BaseException],
        _trace: Optional[TracebackType],
        /,
    ) -> None: ...

@final
class WriteBatch:
    def put(self, key: Buffer, value: Buffer) -> None: ...
    def __setitem__(self, key: Buffer, value: Buffer, /) -> None: ...
    def delete(self, key: Buffer) -> None: ...
    def delete_range(self, *, start: Optional[Buffer] = None, stop: Optional[Buffer] = None) -> None: ...
    def __delitem__(self, key: Buffer, /) -> None: ...
    def append(self, source: WriteBatch) -> None: ...
    def clear(self) -> None: ...
    def write(self) -> None: ...
    def approximate_size(self) -> int: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        _raised: Optional[BaseException],
        _trace: Optional[TracebackType],
        /,
    ) -> None: ...

@final
class Approximate:
    @property
    def keys(self) -> int: ...
    @property
    def table_bytes(self) -> int: ...
    @property
    def memtable_bytes(self) -> int: ...

@final
class VerifyReport:
    @property
    def findings(self) -> list[Error]: ...
    @property
    def table_files_checked(self) -> int: ...
    @property
    def table_bytes_checked(self) -> int: ...
    @property
    def entries_checked(self) -> int: ...
    @property
    def index_keys_checked(self) -> int: ...
    @property
    def memtable_entries(self) -> int: ...
    @property
    def is_clean(self) -> bool: ...

@final
class RepairReport:
    @property
    def table_files_checked(self) -> int: ...
    @property
    def memtable_entries_saved(self) -> int: ...
    @property
    def index_keys(self) -> int: ...
    @property
    def pool(self) -> Optional[str]: ...
    @property
    def damage(self) -> list[Error]: ...
    @property
    def losses(self) -> list[str]: ...
    @property
    def set_aside(self) -> list[str]: ...
    @property
    def left_pool(self) -> Optional[str]: ...

@final
class Destroyed:
    @property
    def files(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def pool(self) -> Optional[str]: ...
    @property
    def left(self) -> list[str]: ...
    @property
    def is_directory_left(self) -> bool: ...

def repair(
    path: _Path,
    *,
    medium: Optional[str] = None,
    comparator: Optional[_Comparator] = None,
    comparator_name: Optional[str] = None,
    progress: Optional[_Progress] = None,
) -> RepairReport: ...
def destroy(path: _Path, *, medium: Optional[str] = None) -> Destroyed: ...
def _forked() -> None: ...
def _close_all() -> None: ...
