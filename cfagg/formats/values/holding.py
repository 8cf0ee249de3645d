"""Files that stay open in the netCDF and HDF5 libraries as long as a dataset reads from them.

The libraries then refuse to overwrite them: xarray may do so before it reads the values that it is about to write.
"""

from __future__ import annotations

import weakref
from typing import Any

from cfagg.formats.values.locks import LIBRARY

__all__ = ["Closer", "Hold"]


class Hold:
    """Keeps a file open that libraries have open now, until it is closed or nobody refers to it any more.

    A copy in another process is `None`, since nothing is open there.
    """

    def __init__(self, path: str) -> None:
        holder = object()
        with LIBRARY:
            keys = frozenset(key for pool in LIBRARY.pools for key in pool.held if key.path == path)
            for pool in LIBRARY.pools:
                for key in keys.intersection(pool.held):
                    pool.holders.setdefault(key, set()).add(holder)
        self._release = weakref.finalize(self, _release, keys, holder)
        self._release.atexit = False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()

    def __deepcopy__(self, memo: Any) -> Hold:
        return self

    def close(self) -> None:
        """Close the file, unless others hold it, too."""
        self._release()
        with LIBRARY:
            pass  # what is no longer used is closed


class Closer:
    """Closes the file of a hold, if it still exists; what only this refers to is closed before."""

    def __init__(self, hold: Hold | None) -> None:
        self._hold = None if hold is None else weakref.ref(hold)

    def __reduce__(self) -> tuple[Any, ...]:
        return Closer, (None,)

    def __call__(self) -> None:
        """Close the file."""
        if self._hold is not None and (hold := self._hold()) is not None:
            hold.close()


def _release(keys: frozenset[Any], holder: object) -> None:
    """Let files be closed: at once, unless a library is at work, as the garbage collector may call this at any time."""
    for pool in LIBRARY.pools:
        for key in keys:
            pool.holders.get(key, set()).discard(holder)
    LIBRARY.close_unused()
