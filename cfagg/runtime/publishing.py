"""Publishing finished work so that a kill or a power loss leaves either the old state or the new one, complete.

The order is always the same: write aside, force the data to disk, rename, force the directories to disk, and only then
remove the old data.  So a rename that is on disk never refers to data that are not.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import re
import shutil
import stat
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import Literal

from cfagg.errors import CfaggError, LeftoverWarning, TargetError

__all__ = [
    "begin_sync",
    "build_of",
    "discard",
    "exchange",
    "is_full",
    "name_build",
    "opened",
    "public_name",
    "put",
    "put_back",
    "read_own",
    "reason",
    "refusals_of",
    "remove",
    "replace_file",
    "sync_directory",
    "sync_file",
    "sync_file_system",
    "sync_tree",
    "write_all",
    "write_synced",
]

#: Errors of a system without a call, or without support for it in this file system; on macOS, two of them differ.
_UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY})


#: A work directory, beside its target or within it; the product in one; a partial file.
_WORK = re.compile(
    r"\.(.+)\.cfagg-(?:partial|accumulation|new-.*)|\.cfagg-(?:partial|append|region-.*)|\.cfagg-accumulation\..*"
)
_PRODUCT = re.compile(r"store|group|file(?:\..*)?")
_PART = re.compile(r"\.(.+?)(?:\.\d+)?\.part")

#: Error codes of the system in messages of HDF5, Arrow and Icechunk.
_LIBRARIES = re.compile(r"(?:Detail: \[errno |\berrno = |\(os error )(\d+)")

#: Bytes that every new file of a library needs.
_FULL = 1 << 16

#: Remedies for errors of the system.
_RIGHTS, _SPACE = "get permission to write there, or choose another place", "free some space and run again"
_REMEDIES = {
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: "choose another place",
    errno.EFBIG: "raise the limit of the size of files (ulimit -f) and run again",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
}


def public_name(path: str | os.PathLike[str], target: str | os.PathLike[str] | None = None) -> str:
    """Return the name by which a user knows a file: its final name, not the one under which it is being built.

    The work directory of an accumulation does not contain the final name of its group; `target` gives it.

    Examples
    --------
    >>> public_name("/data/.a.zarr.cfagg-partial/store/tas/..zarray.12.part")
    '/data/a.zarr/tas/.zarray'
    >>> public_name("/data/.a.zarr.tas.cfagg-accumulation/group/acc_x", "/data/a.zarr/tas_accumulation_group")
    '/data/a.zarr/tas_accumulation_group/acc_x'
    >>> public_name("/data/.a.nc.cfagg-new-12-34ab/file.nc"), public_name("/data/.a.zarr.cfagg-partial/journal")
    ('/data/a.nc', '/data/a.zarr')
    >>> public_name("/data/.a.nc.cfagg-new-12-34ab/file.fragments/tas.0.nc")
    '/data/a.nc.fragments/tas.0.nc'
    """
    names: list[str] = []
    parts = iter(os.fspath(path).split("/"))
    for part in parts:
        work, made = _WORK.fullmatch(part), _PART.fullmatch(part)
        if work is None:
            names.append(made[1] if made else part)
            continue
        if target is not None and "cfagg-accumulation" in part:
            names = [os.fspath(target)]
        else:
            names += [work[1]] if work[1] else []
        product = next(parts, "")
        if not _PRODUCT.fullmatch(product):
            break
        if product == "file.fragments":
            names[-1] += ".fragments"
    return "/".join(names)


def reason(error: OSError, named: str | os.PathLike[str] | None = None) -> str:
    """Return the system's error message, with the name of the file unless the message already names it.

    Examples
    --------
    >>> error = PermissionError(errno.EACCES, "Permission denied", "/data/.a.zarr.cfagg-partial")
    >>> reason(error, "/data/a.zarr"), reason(error, "/data/b.zarr")
    ('Permission denied; get permission to write there, or choose another place',
     'Permission denied (/data/a.zarr); get permission to write there, or choose another place')
    """
    said, code = f"{error.strerror or error}", error.errno
    if error.errno == errno.EACCES and error.filename and is_full(error.filename):
        # HDF5 reports this for any failure to create a file.
        said, code = os.strerror(errno.ENOSPC), errno.ENOSPC
    elif found := _LIBRARIES.search(f"{error}"):
        code = int(found[1])
        said = os.strerror(code)
    if error.filename:
        known = None if named is None else public_name(named)
        name = public_name(error.filename, known)
        if known is None or os.path.abspath(name) != os.path.abspath(known):  # noqa: PTH100
            said += f" ({name})"
    return f"{said}; {_REMEDIES[code]}" if code in _REMEDIES else said


@contextlib.contextmanager
def refusals_of(target: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of the system within the block to the error that the target cannot be written."""
    try:
        yield
    except (CfaggError, BrokenPipeError):  # some errors of cfagg are also OSError
        raise
    except OSError as error:
        raise TargetError(f"{public_name(target)} cannot be written: {reason(error, target)}") from error


def is_full(path: str | os.PathLike[str]) -> bool:
    """Return whether a file cannot be written because the disk is full, although it may be written otherwise."""
    folder = Path(os.path.abspath(os.fsdecode(path))).parent  # noqa: PTH100
    while not folder.exists():  # the work directory has been removed again
        folder = folder.parent
    try:
        found = os.statvfs(folder)
        # What a library could not create any more has been removed again.
        return os.access(folder, os.W_OK) and found.f_bavail * found.f_frsize < _FULL
    except OSError:
        return False


def opened(path: str | os.PathLike[str], mode: Literal["rb", "wb", "ab", "r+b"]) -> FileIO:
    """Open a regular file of a work directory, never a link; it is unbuffered, so failed writes are not retried."""
    return open(path, mode, buffering=0, opener=_only_regular)


def read_own(path: str | os.PathLike[str]) -> bytes:
    """Return the contents of a file of a work directory; see `opened`."""
    with opened(path, "rb") as file:
        return file.readall()


def _only_regular(path: str, flags: int) -> int:
    try:
        handle = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        kinds = {errno.ENXIO: "a FIFO or a socket", errno.EOPNOTSUPP: "a socket", errno.ELOOP: "a link"}
        kind = kinds.get(error.errno or 0)
        if kind is None:
            raise
        raise OSError(error.errno, f"it is {kind}, not a regular file", path) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a FIFO or a device, not a regular file", path)
    return handle


def sync_file(file: int) -> None:
    """Force the data of an open file to disk."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(file, full)
        except OSError as error:
            if error.errno not in _UNKNOWN:
                raise
        else:
            return
    os.fsync(file)


def begin_sync(file: int) -> None:
    """Ask the system to begin writing an open file to disk, so that `sync_tree` waits less; this guarantees nothing."""
    call = _from_c_library("sync_file_range")
    # From the first byte to the last. 2 starts writing without waiting.
    if call is None or call(file, ctypes.c_int64(0), ctypes.c_int64(0), 2) == 0:
        return
    code = ctypes.get_errno()
    if code not in _UNKNOWN:
        raise OSError(code, os.strerror(code))


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Force a directory's entries to disk, if the system can."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
    finally:
        os.close(handle)


def sync_tree(path: str | os.PathLike[str]) -> None:
    """Force a directory tree to disk; on Linux by one call, which is cheaper than one for each file."""
    if not sync_file_system(path):
        _sync_each(path)


def sync_file_system(path: str | os.PathLike[str]) -> bool:
    """Force the file system of `path` to disk; return False if the system cannot."""
    call = _from_c_library("syncfs")
    if call is None:
        return False
    handle = os.open(path, os.O_RDONLY)
    try:
        if call(handle) == 0:
            return True
        code = ctypes.get_errno()
    finally:
        os.close(handle)
    if code in _UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), os.fspath(path))


def _sync_each(path: str | os.PathLike[str]) -> None:
    """Force every file and every directory to disk, directories after their contents."""
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            handle = os.open(os.path.join(folder, name), os.O_RDONLY)  # noqa: PTH118
            try:
                sync_file(handle)
            finally:
                os.close(handle)
        sync_directory(folder)


def exchange(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Exchange two directories atomically; return False if the system cannot."""
    return _rename(one, other, linux=2, darwin=2)


def _rename(one: str | os.PathLike[str], other: str | os.PathLike[str], *, linux: int, darwin: int) -> bool:
    """Rename with the flag of each system; return False if the system cannot."""
    a, b = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        call = _from_c_library("renamex_np")
        done = call is not None and call(a, b, darwin) == 0
    else:
        call = _from_c_library("renameat2")
        # Names are relative to the working directory, which is -100 on Linux.
        done = call is not None and call(-100, a, -100, b, linux) == 0
    if done or call is None:
        return done
    code = ctypes.get_errno()
    if code in _UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), os.fspath(one), None, os.fspath(other))


def put(new: Path, target: Path, old: Path, *, create: bool = False) -> None:
    """Put the directory `new`, whose data are on disk, in the place of another, or in a free place.

    The former directory is at `new` afterwards, or at `old` if the system cannot exchange two of them.
    `FileExistsError` is raised if something appeared in a free place, and with `create` if the place is not free.
    """
    if create or not os.path.lexists(target):
        if not _rename(new, target, linux=1, darwin=4):  # only if the place is still free
            new.rename(target)
    elif not exchange(new, target):
        target.rename(old)
        # After a power loss, the former one has one of two names, never none.
        sync_directory(old.parent)
        sync_directory(target.parent)
        try:
            new.rename(target)
        except BaseException:
            put_back(old, target)
            raise
    _sync_names(target, new)


def put_back(old: Path, target: Path) -> None:
    """Restore the name of a directory that was moved away for one that never arrived."""
    if old.exists() and not os.path.lexists(target):
        old.rename(target)
        sync_directory(target.parent)


def replace_file(new: Path, target: Path, *, create: bool = False) -> None:
    """Put a file in the place of another, or in a free place: its data first, then its name.

    With `create`, `FileExistsError` is raised if something has appeared in the free place.
    """
    handle = os.open(new, os.O_RDWR)
    try:
        sync_file(handle)
    finally:
        os.close(handle)
    if create and os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(target))
    if not (create and _rename(new, target, linux=1, darwin=4)):
        new.replace(target)
    _sync_names(target, new)


def _sync_names(target: Path, new: Path) -> None:
    """Force to disk that `new` has become `target`; an error says that it has, as this cannot be undone safely."""
    try:
        for folder in dict.fromkeys((target.parent, new.parent)):
            sync_directory(folder)
    except OSError as error:
        raise TargetError(
            f"{public_name(target)} is complete and in its place, but a power failure could still take it away: "
            f"{reason(error)}; look after the disk, and run again if it is gone"
        ) from error


def write_all(file: FileIO, data: bytes | memoryview) -> None:
    """Write all bytes to an unbuffered file; the system may accept them in pieces."""
    left = memoryview(data)
    while left.nbytes:
        left = left[file.write(left) :]


def write_synced(path: Path, data: bytes) -> None:
    """Write a document completely or not at all, and to disk before anything that depends on it."""
    part = path.with_name(f".{path.name}.part")
    with opened(part, "wb") as file:
        write_all(file, data)
    replace_file(part, path)


def discard(paths: Iterable[Path], home: Path, of: str) -> None:
    """Remove leftovers, and `home` last; failures give a warning, because the work is done."""
    try:
        for path in paths:
            if path.name == "done" and path.exists():
                # The mark of a finished job is removed after everything else, on disk too.
                sync_directory(home)
            remove(path)
        # This fails if another process has just begun to work there.
        home.rmdir()
    except OSError as error:
        warnings.warn(
            f"{of} is complete, but {home} could not be removed ({error.strerror or error}); the next run removes it",
            LeftoverWarning,
            stacklevel=3,
        )


#: Number of attempts to remove a directory into which another process writes.
_ATTEMPTS = 16


def remove(path: Path) -> None:
    """Remove a file or a directory with everything in it, if it exists."""
    for left in reversed(range(_ATTEMPTS)):
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            # A worker that was given up may have written or removed one more file.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT) or not left:
                raise
        else:
            return


#: The extended attribute of a directory that names the build that created it.
_BUILD = "user.cfagg.build"


def name_build(path: Path, build: str) -> None:
    """Record in a directory which build created it, if the file system can, so that the same build is not repeated."""
    if hasattr(os, "setxattr"):
        with contextlib.suppress(OSError):
            os.setxattr(path, _BUILD, build.encode())


def build_of(path: Path) -> str | None:
    """Return the build that created a directory, or `None` if it is not recorded."""
    if not hasattr(os, "getxattr"):
        return None
    try:
        return os.getxattr(path, _BUILD).decode("ascii")
    except (OSError, ValueError):
        return None


@functools.cache
def _from_c_library(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, or `None` if there is none."""
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError, TypeError):
        return None
    return found
