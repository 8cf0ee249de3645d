"""Closing netCDF files that may not have been written to the end."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cfagg.runtime.publishing import sync_file, write_all

__all__ = ["closing_written"]

#: Bytes that hold what the library notes of an open file.
_START = 512


@contextmanager
def closing_written(file: Any, path: str | os.PathLike[str]) -> Iterator[Any]:
    """Close a `netCDF4.Dataset` when the block ends, after everything was forced to disk.

    The netCDF library does not survive a file whose end cannot be written when it is closed: the process ends.  So what
    a full or broken disk answers is found out before, and a file that cannot be written stays open for good.

    Parameters
    ----------
    file : netCDF4.Dataset
        Open for writing.
    path : path
        Its name.

    Raises
    ------
    OSError, RuntimeError
        It cannot be written.
    """
    try:
        yield file
        file.sync()
        # The library leaves its bytes with the system, which may not find room for them before this; and when it closes
        # the file it writes the first ones once more.
        with Path(path).open("r+b", buffering=0) as same:
            start = same.read(_START)
            same.seek(0)
            write_all(same, start)
            sync_file(same.fileno())
    except BaseException:
        _close_if_written(file)
        raise
    file.close()


def _close_if_written(file: Any) -> None:
    """Close a file unless the library cannot write it; then no end of the object shall close it either."""
    try:
        file.sync()
    except (OSError, RuntimeError):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(file))
        return
    with contextlib.suppress(OSError, RuntimeError):
        file.close()
