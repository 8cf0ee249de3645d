"""Single files that appear whole or not at all."""

from __future__ import annotations

import glob
import hashlib
import os
import secrets
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cfagg.errors import LeftoverWarning, TargetError
from cfagg.runtime.publishing import remove, replace_file
from cfagg.runtime.staging import lock

__all__ = ["beside", "write_aside", "written_aside"]

#: What is found in a directory of a single output.
_OURS = frozenset({"lock", "file", "former"})


@contextmanager
def written_aside(target: Path) -> Iterator[Path]:
    """Give the name of a new file that takes the place of `target` when the block ends well.

    The file has the rights that the process gives to new files.  What killed processes left of the same target is
    removed.

    Raises
    ------
    OSError
        It cannot be written.
    """
    with beside(target) as folder:
        made = folder / f"file{target.suffix}"
        yield made
        replace_file(made, target)


def write_aside(target: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all, whatever happens."""
    with written_aside(target) as made:
        made.write_bytes(data)


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """Give a new directory beside a target, which is removed when the block ends; its files are named ``file…``.

    It is locked as long, so that other processes can tell whether whoever made it still lives; directories of the same
    target whose makers do not are removed.
    """
    stem = f".{_clipped(target.name)}.cfagg-new-"
    for left in target.parent.glob(f"{glob.escape(stem)}*"):
        _sweep(left)
    folder, held = _claimed(target.parent, stem)
    try:
        yield folder
    except BaseException:
        _removed(folder)
        raise
    else:
        error = _removed(folder)
        if error is not None:
            warnings.warn(
                f"{target} is complete, but {folder} could not be removed: {error.strerror or error}; the next run "
                "removes it",
                LeftoverWarning,
                stacklevel=4,
            )
    finally:
        held.close()


def _clipped(name: str) -> str:
    """Return a name to which others can be added; systems allow 255 bytes."""
    raw = os.fsencode(name)
    if len(raw) <= 150:
        return name
    return os.fsdecode(raw[:100]).encode("utf-8", "ignore").decode() + hashlib.sha256(raw).hexdigest()[:16]


def _claimed(home: Path, stem: str) -> tuple[Path, IO[bytes]]:
    """Make a directory and lock it."""
    for _ in range(100):
        folder = home / f"{stem}{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir()
        try:
            file, held = lock(folder / "lock")
        except FileNotFoundError:
            # Another process has taken it for a dead one's before it was locked.
            continue
        except BaseException:
            _removed(folder)
            raise
        if held is not False:
            return folder, file
        file.close()
    raise TargetError(f"no directory could be made in {home}: other processes removed it each time; run again")


def _sweep(left: Path) -> None:
    """Remove a directory whose maker is dead."""
    try:
        if left.is_symlink() or not left.is_dir() or not all(p.name.split(".")[0] in _OURS for p in left.iterdir()):
            return
        file, held = lock(left / "lock")
        with file:
            if held:
                _removed(left)
    except OSError:
        # Another process was faster, or its owner alone may remove it.
        return


def _removed(folder: Path) -> OSError | None:
    """Remove a directory, the lock last; return what prevented it."""
    try:
        for path in folder.iterdir():
            if path.name != "lock":
                remove(path)
        (folder / "lock").unlink(missing_ok=True)
        folder.rmdir()
    except OSError as error:
        return error
    return None
