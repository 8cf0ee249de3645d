"""What a store is: bytes by key, in a directory of this machine, on a web server or in an object store.

Keys are paths below the store, such as ``data/0.0``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from cfagg.errors import CfaggError, SourceError

__all__ = ["MAX_OBJECT", "Part", "Source", "State", "check_key", "raise_ours"]

#: Bytes of an object that is read whole; such are metadata.
MAX_OBJECT = 2**28


class Part(NamedTuple):
    """Bytes of an object on another machine, and the state that it has."""

    body: bytes
    #: Bytes of the whole object.
    size: int
    #: What changes when the object is written; `None` where the server did not say.
    tag: str | None
    #: Whether the tag is sure to change: not a time in whole seconds of which the last one is not over.
    settled: bool = True


class State(NamedTuple):
    """What an object on another machine is known by: it has another state once it is written."""

    size: int
    #: The server's tag, without quotation marks.
    tag: str
    #: When it was written, in nanoseconds since 1970, and the time at the server; 0 where it did not say.
    modified: int
    now: int


@runtime_checkable
class Source(Protocol):
    """The bytes of a store, by key.

    Attributes
    ----------
    path : str
        The store's directory or URL.
    remote : bool
        Whether every read is a message to another machine, so that few large reads are better than many small ones.
    """

    path: str
    remote: bool

    def read(self, key: str) -> bytes | None:
        """Return all bytes under a key, `None` where there are none.

        Raises
        ------
        LimitError
            There are more than `MAX_OBJECT`.
        AccessError
            A server does not let it be read.
        """

    def read_range(self, key: str, start: int, count: int) -> bytes:
        """Return `count` bytes from `start` on; fewer only where the object ends before.

        Raises
        ------
        FragmentReadError
            The object is not there or not readable.
        StaleError
            It has been written since it was first read.
        """

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return several ranges ``(start, count)`` of one object."""

    def read_edge(self, key: str, count: int, *, last: bool = False) -> tuple[bytes, int] | None:
        """Return the first `count` bytes of an object, or the last, and its size; `None` where there is none."""

    def size(self, key: str) -> int | None:
        """Return the number of bytes under a key, `None` where there are none."""

    def sizes(self, folder: str, names: Sequence[str]) -> list[int | None]:
        """Return the number of bytes of objects below a folder, `None` where there are none."""


def raise_ours(error: BaseException) -> None:
    """Raise the error of cfagg that is in a group of errors, as zarr-python makes them of parallel reads."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
        if isinstance(error, CfaggError):
            raise error from None


def check_key(path: str, key: str) -> str:
    """Return a key that cannot lead out of its store.

    >>> check_key("a.zarr", "data/0.0")
    'data/0.0'
    """
    if "\0" in key or "\\" in key or any(part in ("", ".", "..") for part in key.split("/")):
        raise SourceError(f"{path}: {key!r} is not a key of a store")
    return key
