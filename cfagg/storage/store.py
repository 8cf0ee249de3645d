"""The interface of a store: bytes by key, in a local directory, on a web server or in an object store.

Keys are paths below the store, such as ``data/0.0``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from cfagg.errors import CfaggError, SourceError

__all__ = ["MAX_OBJECT", "Part", "Source", "State", "check_key", "is_page", "raise_ours"]

#: Maximum size of an object that is read whole, such as metadata.
MAX_OBJECT = 2**28


def is_page(head: bytes) -> bool:
    """Return whether bytes begin like a web page, which servers send in place of what does not exist."""
    return re.match(rb"\s*<(!doctype|html)", head[:64], re.IGNORECASE) is not None


class Part(NamedTuple):
    """Bytes of a remote object, and its state."""

    body: bytes
    #: Size of the whole object.
    size: int
    #: Changes when the object is written; `None` if the server did not give one.
    tag: str | None
    #: Whether the tag changes with any later write, unlike a time in whole seconds that has just passed.
    settled: bool = True


class State(NamedTuple):
    """The state of a remote object, which differs once it has been written."""

    size: int
    #: The server's tag, without quotation marks.
    tag: str
    #: Time of the last modification in nanoseconds since 1970, and the time at the server; 0 if not given.
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
        Whether every read is a request to another machine, so that few large reads are better than many small ones.
    """

    path: str
    remote: bool

    def read(self, key: str) -> bytes | None:
        """Return all bytes under a key, or `None` if it does not exist.

        Raises
        ------
        LimitError
            There are more than `MAX_OBJECT`.
        AccessError
            The server refuses access.
        """

    def read_range(self, key: str, start: int, count: int) -> bytes:
        """Return `count` bytes from `start` on; fewer only if the object ends before that.

        Raises
        ------
        FragmentReadError
            The object does not exist or is not readable.
        StaleError
            It has been written since it was first read.
        """

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return several ranges ``(start, count)`` of one object."""

    def read_edge(self, key: str, count: int, *, last: bool = False) -> tuple[bytes, int] | None:
        """Return the first `count` bytes of an object, or the last, and its size; or `None` if it does not exist."""

    def size(self, key: str) -> int | None:
        """Return the number of bytes under a key, or `None` if it does not exist."""

    def sizes(self, folder: str, names: Sequence[str]) -> list[int | None]:
        """Return the number of bytes of objects below a folder, or `None` for those that do not exist."""


def raise_ours(error: BaseException) -> None:
    """Raise the error of cfagg that is in an exception group, which zarr-python raises for parallel reads."""
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
