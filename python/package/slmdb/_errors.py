"""What slmdb raises, by what a caller can do about it."""

import builtins
from typing import ClassVar, Optional


class Error(Exception):
    """Whatever a store raises. The message says what happened, where, and what to do."""

    #: The kind of error, in the word that the command ``slmdb`` prints.
    kind: ClassVar[str] = "error"


class IOError(Error, builtins.OSError):
    """The operating system failed. ``errno`` and ``filename`` say how, and on which file."""

    kind = "io"

    def __str__(self) -> str:
        return str(self.strerror)


class FullError(IOError):
    """The disk or the pool is full. Nothing was written: free some space and try again."""

    kind = "full"


class LockedError(IOError):
    """Somebody else has the store open. ``holder`` is the process, where that can be found out."""

    kind = "locked"
    holder: Optional[int] = None


class CorruptionError(Error):
    """Bytes are not what was written: in the file ``path``, at the byte ``offset``."""

    kind = "corruption"
    path: str = ""
    offset: int = 0


class ReadOnlyError(Error):
    """The store takes no writes: it was opened so, or a failure has stopped them. Opening it again recovers."""

    kind = "read-only"


class UnsupportedError(Error):
    """Another version made the store, or this build lacks what it asks for."""

    kind = "unsupported"


class InvalidError(Error, ValueError):
    """The request can't be carried out as it stands: a key is too long, a store is missing, options contradict it."""

    kind = "invalid"


class ClosedError(Error, RuntimeError):
    """The store, snapshot or iterator is closed, or was opened by the process that this one was forked from."""

    kind = "closed"


class ComparatorError(Error):
    """The comparator raised the exception that is this one's ``__cause__``. The order of keys is in doubt from then on."""

    kind = "comparator"
