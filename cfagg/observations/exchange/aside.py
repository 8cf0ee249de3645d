"""A file that is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cfagg.errors import CfaggError, TargetError, TargetExistsError

__all__ = ["written_aside"]


@contextlib.contextmanager
def written_aside(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Give the name of a new file that takes the place of another when the block ends well.

    Raises
    ------
    TargetExistsError
        The file is there and may not be replaced.
    TargetError
        It cannot be written.
    """
    target = Path(path)
    if "://" in os.fspath(path):
        raise TargetError(f"{path} is a URL; a file is written to a local directory: name one")
    if target.is_dir():
        raise TargetError(f"{target} is a directory; give the name of a file")
    if os.path.lexists(target) and not overwrite:
        raise TargetExistsError(f"{target} exists; choose another name or replace it with overwrite=True")
    target = target.resolve()
    try:
        handle, name = tempfile.mkstemp(prefix=".cfagg-", suffix=target.suffix, dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise TargetError(f"{path} cannot be written: {error.strerror or error}") from error
    aside = Path(name)
    try:
        yield aside
        with aside.open("rb+") as file:
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        aside.chmod(0o666 & ~mask)
        aside.replace(target)
    except CfaggError:  # some of them are also OSError
        raise
    except (OSError, RuntimeError) as error:  # netCDF4 says RuntimeError where HDF5 fails
        raise TargetError(f"{path} cannot be written: {error}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            aside.unlink()
