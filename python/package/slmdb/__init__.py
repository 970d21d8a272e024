"""slmdb: an ordered, embedded key-value store. A put that has returned survives a crash of the process, and with ``sync``
a power cut.

>>> import slmdb, tempfile
>>> directory = tempfile.TemporaryDirectory()
>>> with slmdb.DB(directory.name + "/db") as db:
...     db[b"apple"] = b"red"
...     db.put(b"pear", b"green", sync=True)
...     list(db.items(reverse=True))
[(b'pear', b'green'), (b'apple', b'red')]

Keys and values are bytes. Programs that use plyvel can use ``slmdb.plyvel`` instead.
"""

import atexit as _atexit
import os as _os

from ._errors import (
    ClosedError,
    ComparatorError,
    CorruptionError,
    Error,
    FullError,
    InvalidError,
    IOError,
    LockedError,
    ReadOnlyError,
    UnsupportedError,
)
from ._slmdb import (
    DB,
    Approximate,
    Destroyed,
    Iterator,
    PrefixedDB,
    Reader,
    RepairReport,
    Shared,
    Snapshot,
    VerifyReport,
    WriteBatch,
    Writer,
    __version__,
    _close_all,
    _forked,
    destroy,
    repair,
)

__all__ = [
    "DB",
    "Approximate",
    "ClosedError",
    "ComparatorError",
    "CorruptionError",
    "Destroyed",
    "Error",
    "FullError",
    "IOError",
    "InvalidError",
    "Iterator",
    "LockedError",
    "PrefixedDB",
    "ReadOnlyError",
    "Reader",
    "RepairReport",
    "Shared",
    "Snapshot",
    "UnsupportedError",
    "VerifyReport",
    "WriteBatch",
    "Writer",
    "__version__",
    "destroy",
    "repair",
]

# A store's errors are known by the name of the package.
for _name in __all__:
    _thing = globals()[_name]
    if isinstance(_thing, type) and issubclass(_thing, Error):
        _thing.__module__ = "slmdb"

_os.register_at_fork(after_in_child=_forked)
_atexit.register(_close_all)
