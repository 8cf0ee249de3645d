"""Putting finished work in its place so that a kill or a power loss leaves the old state or the new one, whole.

The order is always the same: write aside, force the data to disk, rename, force the directories to disk, and only then
remove what was replaced.  A rename that is on disk thus never points to data that are not.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
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
from typing import Any, Literal

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

#: What a system answers that does not know a call, or not for this file system.
_UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTTY})


#: A work directory, beside its target or within it; what is built in one; a file that is not whole yet.
_WORK = re.compile(r"\.(.+)\.cfagg-(?:partial|accumulation|new-.*)|\.cfagg-(?:partial|append)|\.cfagg-accumulation\..*")
_PRODUCT = re.compile(r"store|group|file(?:\..*)?")
_PART = re.compile(r"\.(.+?)(?:\.\d+)?\.part")

#: What HDF5 and Arrow say of the system's answer, within more of their own.
_LIBRARIES = re.compile(r"(?:Detail: \[errno |\berrno = )(\d+)")

#: What to do about what the system answers.
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
    """Return the name under which a user knows a file: where it will stand, not where it is being built.

    The name of a work directory of an accumulation does not say where its group will stand; `target` does.

    Examples
    --------
    >>> public_name("/data/.a.zarr.cfagg-partial/store/tas/..zarray.12.part")
    '/data/a.zarr/tas/.zarray'
    >>> public_name("/data/.a.zarr.tas.cfagg-accumulation/group/acc_x", "/data/a.zarr/tas_accumulation_group")
    '/data/a.zarr/tas_accumulation_group/acc_x'
    >>> public_name("/data/.a.nc.cfagg-new-12-34ab/file.nc"), public_name("/data/.a.zarr.cfagg-partial/journal")
    ('/data/a.nc', '/data/a.zarr')
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
        if not _PRODUCT.fullmatch(next(parts, "")):
            break
    return "/".join(names)


def reason(error: OSError, named: str | os.PathLike[str] | None = None) -> str:
    """Return what the system says, in its words, and of which file, unless the message has named that already.

    Examples
    --------
    >>> error = PermissionError(errno.EACCES, "Permission denied", "/data/.a.zarr.cfagg-partial")
    >>> reason(error, "/data/a.zarr"), reason(error, "/data/b.zarr")
    ('Permission denied; get permission to write there, or choose another place',
     'Permission denied (/data/a.zarr); get permission to write there, or choose another place')
    """
    said, code = f"{error.strerror or error}", error.errno
    if error.errno == errno.EACCES and error.filename and is_full(error.filename):
        # HDF5 gives this for whatever keeps it from making a file.
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
    """Say of what the system refuses within the block that the target cannot be written."""
    try:
        yield
    except (CfaggError, BrokenPipeError):  # some errors of cfagg are also OSError
        raise
    except OSError as error:
        raise TargetError(f"{public_name(target)} cannot be written: {reason(error, target)}") from error


def is_full(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file cannot be written because there is no room, and may be otherwise."""
    folder = os.path.dirname(os.fsdecode(path)) or "."  # noqa: PTH120
    try:
        return os.access(folder, os.W_OK) and os.statvfs(folder).f_bavail == 0
    except (AttributeError, OSError):
        return False


def opened(path: str | os.PathLike[str], mode: Literal["rb", "wb", "ab", "r+b"]) -> FileIO:
    """Open a regular file of a work directory, no link, unbuffered: what could not be written is not tried again."""
    return open(path, mode, buffering=0, opener=_only_regular)


def read_own(path: str | os.PathLike[str]) -> bytes:
    """Return what a file of a work directory holds; see `opened`."""
    with opened(path, "rb") as file:
        return file.readall()


def _only_regular(path: str, flags: int) -> int:
    more = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(path, flags | more, 0o666)
    except OSError as error:
        kind = {errno.ENXIO: "a FIFO or a socket", errno.ELOOP: "a link"}.get(error.errno or 0)
        if kind is None:
            raise
        raise OSError(error.errno, f"it is {kind}, not a regular file", path) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a FIFO or a device, not a regular file", path)
    return handle


def sync_file(file: int) -> None:
    """Force the data of an open file to disk."""
    full = getattr(_fcntl(), "F_FULLFSYNC", None)
    if full is not None:
        try:
            _fcntl().fcntl(file, full)
        except OSError as error:
            if error.errno not in _UNKNOWN:
                raise
        else:
            return
    os.fsync(file)


def begin_sync(file: int) -> None:
    """Let the system begin to write an open file to disk, so that `sync_tree` waits less; it promises nothing."""
    call = _from_c_library("sync_file_range")
    # From the first byte to the last; 2: begin to write, wait for nothing.
    if call is None or call(file, ctypes.c_int64(0), ctypes.c_int64(0), 2) == 0:
        return
    code = ctypes.get_errno()
    if code not in _UNKNOWN:
        raise OSError(code, os.strerror(code))


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Force a directory's entries to disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
    finally:
        os.close(handle)


def sync_tree(path: str | os.PathLike[str]) -> None:
    """Force a directory and all below it to disk: on Linux by one call, which costs less than one for each file."""
    if not sync_file_system(path):
        _sync_each(path)


def sync_file_system(path: str | os.PathLike[str]) -> bool:
    """Force the file system that holds `path` to disk; return False where the system cannot."""
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
    """Force every file and every directory to disk, directories after what is in them."""
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            # Windows forces only files to disk that are open for writing.
            handle = os.open(os.path.join(folder, name), os.O_RDONLY if os.name == "posix" else os.O_RDWR)  # noqa: PTH118
            try:
                sync_file(handle)
            finally:
                os.close(handle)
        sync_directory(folder)


def exchange(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Exchange two directories at once; return False where the system cannot."""
    return _rename(one, other, linux=2, darwin=2)


def _rename(one: str | os.PathLike[str], other: str | os.PathLike[str], *, linux: int, darwin: int) -> bool:
    """Rename with the flag that each system has for it; return False where the system cannot."""
    a, b = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        call = _from_c_library("renamex_np")
        done = call is not None and call(a, b, darwin) == 0
    else:
        call = _from_c_library("renameat2")
        # Names are relative to the working directory, which Linux calls -100.
        done = call is not None and call(-100, a, -100, b, linux) == 0
    if done or call is None:
        return done
    code = ctypes.get_errno()
    if code in _UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), os.fspath(one), None, os.fspath(other))


def put(new: Path, target: Path, old: Path) -> None:
    """Put the directory `new`, whose data are on disk, in the place of another, or in a place that is free.

    The former one is found at `new` afterwards, or at `old` if the system cannot exchange two of them.
    `FileExistsError` says that something appeared in a place that was free.
    """
    if not os.path.lexists(target):
        if not _rename(new, target, linux=1, darwin=4):  # only if there still is nothing
            new.rename(target)
    elif not exchange(new, target):
        target.rename(old)
        # A power loss finds the former one under one of two names, never under none.
        sync_directory(old.parent)
        sync_directory(target.parent)
        try:
            new.rename(target)
        except BaseException:
            put_back(old, target)
            raise
    sync_directory(target.parent)
    sync_directory(new.parent)


def put_back(old: Path, target: Path) -> None:
    """Give a directory its name back that was moved away for one that did not come."""
    if old.exists() and not os.path.lexists(target):
        old.rename(target)
        sync_directory(target.parent)


def replace_file(new: Path, target: Path) -> None:
    """Put a file in the place of another, or in a place that is free: its data first, then its name."""
    handle = os.open(new, os.O_RDWR)
    try:
        sync_file(handle)
    finally:
        os.close(handle)
    new.replace(target)
    for folder in dict.fromkeys((target.parent, new.parent)):
        sync_directory(folder)


def write_all(file: FileIO, data: bytes | memoryview) -> None:
    """Write all bytes to an unbuffered file; the system may take them in pieces."""
    left = memoryview(data)
    while left.nbytes:
        left = left[file.write(left) :]


def write_synced(path: Path, data: bytes) -> None:
    """Write a document that is there whole or not at all, and on disk before anything that relies on it."""
    part = path.with_name(f".{path.name}.part")
    with opened(part, "wb") as file:
        write_all(file, data)
    replace_file(part, path)


def discard(paths: Iterable[Path], home: Path, of: str) -> None:
    """Remove what is of no more use, and `home` last; what cannot be removed is a warning, as the work is done."""
    try:
        for path in paths:
            if path.name == "done" and path.exists():
                # The mark of a finished job goes after everything else has gone, on disk too.
                sync_directory(home)
            remove(path)
        # Not if another process has just begun to work there.
        home.rmdir()
    except OSError as error:
        warnings.warn(
            f"{of} is complete, but {home} could not be removed ({error.strerror or error}); the next run removes it",
            LeftoverWarning,
            stacklevel=3,
        )


#: How often a directory is removed into which somebody writes.
_ATTEMPTS = 16


def remove(path: Path) -> None:
    """Remove a file or a directory with everything in it, as far as it is there."""
    for left in reversed(range(_ATTEMPTS)):
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            # A worker that nobody waits for any more may have written one more file, or removed one.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT) or not left:
                raise
        else:
            return


#: The extended attribute that names the build which made a directory.
_BUILD = "user.cfagg.build"


def name_build(path: Path, build: str) -> None:
    """Let a directory tell which build made it, where its file system can, so that the same build is not done twice."""
    if hasattr(os, "setxattr"):
        with contextlib.suppress(OSError):
            os.setxattr(path, _BUILD, build.encode())


def build_of(path: Path) -> str | None:
    """Return which build made a directory, `None` where it does not tell."""
    if not hasattr(os, "getxattr"):
        return None
    try:
        return os.getxattr(path, _BUILD).decode("ascii")
    except (OSError, ValueError):
        return None


@functools.cache
def _from_c_library(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, `None` where there is none."""
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError, TypeError):
        return None
    return found


@functools.cache
def _fcntl() -> Any:
    """Return the module, `None` on systems without it."""
    try:
        import fcntl
    except ImportError:
        return None
    return fcntl
