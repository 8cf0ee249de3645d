"""The global lock around the netCDF-C and HDF5 libraries, which are not thread-safe.

Other code in the process may use the same libraries through xarray, so its locks are acquired, too, if it is loaded.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

__all__ = ["LIBRARY"]


class LibraryLock:
    """A re-entrant lock that also holds xarray's netCDF-C and HDF5 locks while it is held.

    Files are open in the libraries only while the lock is held, longer within a block of `keeping_files`, or as long as
    a `Hold` exists: HDF5 keeps others from writing a file that is open, in this process and others, even to read it.
    """

    def __init__(self) -> None:
        #: The files that each library has open: `cfagg.formats.values.pool.Pool`.
        self.pools: list[Any] = []
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._own = threading.RLock()
        self._depth = 0
        self._foreign: Any = None
        self._count = threading.Lock()
        self._keeping = 0

    def __enter__(self) -> None:
        self._own.acquire()
        if self._depth == 0:
            # xarray's own combined lock, and not its two parts, so that both always take them in the same order.
            module = sys.modules.get("xarray.backends.netCDF4_")
            foreign = getattr(module, "NETCDF4_PYTHON_LOCK", None)
            if foreign is not None:
                foreign.__enter__()
            self._foreign = foreign  # only now, as the garbage collector may call `close_unused` at any time
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._depth == 1 and not self._keeping:
                for pool in self.pools:
                    pool.close_local()
        finally:
            self._depth -= 1
            if self._depth == 0 and self._foreign is not None:
                foreign, self._foreign = self._foreign, None
                foreign.__exit__(kind, value, trace)
            self._own.release()

    @contextmanager
    def keeping_files(self) -> Iterator[None]:
        """Leave files open from one use of a library to the next; all are closed where the last such block ends."""
        count = self._count  # another one in a child process that is forked meanwhile
        with count:
            self._keeping += 1
        try:
            yield
        finally:
            with count:
                if count is self._count:
                    self._keeping -= 1
            if not self._keeping and any(pool.held for pool in self.pools):
                with self:
                    pass

    def close_unused(self) -> None:
        """Close the files that nobody uses, if it can be done at once; otherwise the next use of a library does it."""
        if self._keeping or not self._own.acquire(blocking=False):
            return
        try:
            module = sys.modules.get("xarray.backends.netCDF4_")
            foreign = getattr(module, "NETCDF4_PYTHON_LOCK", None)
            if self._depth == 0 and not (foreign is not None and foreign.locked()):
                with self:
                    pass
        finally:
            self._own.release()


#: Held around every call into netCDF4 and h5py.
LIBRARY = LibraryLock()
