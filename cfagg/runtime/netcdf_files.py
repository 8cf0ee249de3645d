"""Closing netCDF files so that a full or broken disk raises an error and does not end the process."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cfagg.runtime.publishing import is_full, sync_file, write_all
from cfagg.runtime.staging import has_locks

__all__ = ["close", "closing_written", "created", "failures_of_hdf5"]

#: Size of the start of an open file, where the library keeps its bookkeeping.
_START = 512

#: H5F_OBJ_ALL in place of a file, and H5F_OBJ_FILE.
_EVERY_FILE, _FILES = 0x1F, 0x01

#: Identifiers of files that HDF5 could not close, which must not be inspected any more.
_broken: set[int] = set()


def created(create: Callable[[], Any], path: str | os.PathLike[str]) -> Any:
    """Return a new `netCDF4.Dataset`; without file locks, the library would report a lack of permission."""
    try:
        with failures_of_hdf5(path):
            return create()
    except UnicodeEncodeError as error:
        said = "the netCDF library cannot write a file whose path is not UTF-8; give another name"
        raise OSError(errno.EILSEQ, said, os.fspath(path)) from error
    except OSError as error:
        if os.sep == "/" and "\\" in os.fspath(path):
            said = "the netCDF library takes the backslashes in its path for slashes; give another name"
            raise OSError(errno.EINVAL, said, os.fspath(path)) from error
        if not has_locks(Path(path).parent):
            said = (
                "its file system does not support locks, which the HDF5 library needs; set the environment variable "
                "HDF5_USE_FILE_LOCKING=FALSE to write without them"
            )
            raise OSError(errno.ENOLCK, said, os.fspath(path)) from error
        raise


@contextmanager
def failures_of_hdf5(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise an error of the system if a library only reports that HDF5 failed."""
    try:
        yield
    except RuntimeError as error:
        if type(error) is not RuntimeError:  # a subclass
            raise
        if is_full(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path)) from error
        raise OSError(errno.EIO, f"{error}; is the disk full?", os.fspath(path)) from error


@contextmanager
def closing_written(file: Any, path: str | os.PathLike[str]) -> Iterator[Any]:
    """Close a `netCDF4.Dataset` at the end of the block, after forcing everything to disk.

    Errors of a full or broken disk are found before the file is closed, and a file that cannot be written stays open
    forever, because closing it in the netCDF library would end the process.
    """
    try:
        with failures_of_hdf5(path):
            yield file
            file.sync()
        # The library leaves its bytes with the system, which may only now find that there is no room for them; and on
        # closing, the library writes the first ones once more.
        with Path(path).open("r+b", buffering=0) as same:
            start = same.read(_START)
            same.seek(0)
            write_all(same, start)
            sync_file(same.fileno())
    except BaseException:
        _close_if_written(file)
        raise
    close(file)


def close(file: Any) -> None:
    """Close a `netCDF4.Dataset` whose data have been passed to the system.

    If HDF5 cannot close a file, the netCDF library inspects what is left of it and the process ends.  So HDF5 is asked
    to keep the file open while the netCDF library closes it, and then to close it, which reports the error here.
    """
    path = file.filepath()
    library = _hdf5(type(file).__module__)
    held = [] if library is None else _held(library, path)
    try:
        file.close()
    except BaseException:
        # Another attempt, at the latest when the object is deleted, would end the process.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(file))
        raise
    finally:
        broken = {number for number in held if library.H5Fclose(number) < 0}
        _broken.update(broken)
    if broken:
        raise OSError(errno.EIO, "its last bytes could not be written, or it could not be closed", path)


def _held(library: Any, path: str) -> list[int]:
    """Add a reference to every open HDF5 file of a name, and return their ids; each needs one more close."""
    most = library.H5Fget_obj_count(_EVERY_FILE, _FILES)
    numbers = (ctypes.c_int64 * max(most, 1))()
    found = library.H5Fget_obj_ids(_EVERY_FILE, _FILES, max(most, 0), numbers)
    name = os.fsencode(path)
    said = ctypes.create_string_buffer(len(name) + 2)
    held = []
    for number in numbers[: max(found, 0)]:
        if number in _broken:
            continue
        if library.H5Fget_name(number, said, len(said)) == len(name) and said.value == name:
            library.H5Iinc_ref(number)
            held.append(number)
    return held


@functools.cache
def _hdf5(module: str) -> Any:
    """Return the HDF5 library of the netCDF library, or `None` if it is not accessible."""
    try:
        library = ctypes.CDLL(sys.modules[module].__file__)
        number, size = ctypes.c_int64, ctypes.c_ssize_t
        for name, result, arguments in (
            ("H5Fget_obj_count", size, [number, ctypes.c_uint]),
            ("H5Fget_obj_ids", size, [number, ctypes.c_uint, ctypes.c_size_t, ctypes.POINTER(number)]),
            ("H5Fget_name", size, [number, ctypes.c_char_p, ctypes.c_size_t]),
            ("H5Iinc_ref", ctypes.c_int, [number]),
            ("H5Fclose", ctypes.c_int, [number]),
        ):
            call = getattr(library, name)
            call.restype, call.argtypes = result, arguments
    except (AttributeError, OSError, TypeError):
        return None
    return library


def _close_if_written(file: Any) -> None:
    """Close a file unless the library cannot write it; in that case the object is never deleted, so never closed."""
    try:
        file.sync()
    except (OSError, RuntimeError):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(file))
        return
    with contextlib.suppress(OSError, RuntimeError):
        close(file)
