"""A copy beside the place where it will stand, which takes that place when it is finished and is removed if not."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cfagg.errors import TargetError

__all__ = ["copied", "finished"]


@contextmanager
def copied(source: str, target: str) -> Iterator[str]:
    """Copy a file or directory to a new name in the directory of `target`; give the copy's path.

    Raises
    ------
    TargetError
        If it cannot be copied.
    """
    # A link stays a link: what it leads to is replaced.
    home = Path(os.path.realpath(target)).parent
    try:
        folder = tempfile.mkdtemp(prefix=".cfagg-", dir=home)
    except OSError as error:
        raise TargetError(f"{target} cannot be written: {error.strerror or error}") from error
    try:
        copy = Path(folder) / Path(target.rstrip("/")).name
        try:
            if Path(source).is_dir():
                shutil.copytree(source, copy, symlinks=True)
            else:
                shutil.copyfile(source, copy)
                shutil.copymode(source, copy)
                # Who may not write to the source may write to the copy.
                copy.chmod(copy.stat().st_mode | 0o200)
        except (OSError, shutil.Error) as error:
            raise TargetError(f"{source} cannot be copied to {home}: {error}") from error
        yield str(copy)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def finished(copy: str, target: str) -> None:
    """Put a copy in the place of `target`.

    Raises
    ------
    TargetError
        If it cannot be put there.
    """
    place = os.path.realpath(target)
    try:
        if Path(place).is_dir():
            # Directories cannot be exchanged at once: the former stays until the new one is there.
            former = Path(copy).parent / "former"
            Path(place).rename(former)
            try:
                Path(copy).rename(place)
            except OSError:
                former.rename(place)
                raise
        else:
            Path(copy).replace(place)
    except OSError as error:
        raise TargetError(f"{target} cannot be written: {error.strerror or error}") from error
