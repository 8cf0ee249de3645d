"""A file that is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from cfagg.errors import CfaggError, TargetError, TargetExistsError
from cfagg.errors.arguments import a_path
from cfagg.runtime import files
from cfagg.runtime.publishing import reason
from cfagg.storage.urls import refuse_url

__all__ = ["written_aside"]


@contextlib.contextmanager
def written_aside(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Give the name of a new file that takes the place of another when the block ends well."""
    name = a_path(path, expected="name the file to write")
    target = Path(name)
    refuse_url(name, "written")
    if os.path.isdir(target):  # noqa: PTH112 - Path raises where it may not be looked for
        raise TargetError(f"{target} is a directory; give the name of a file")
    if os.path.lexists(target) and not overwrite:
        raise TargetExistsError(f"{target} exists; choose another name or replace it with overwrite=True")
    made = target
    try:
        with files.written_aside(target.resolve()) as made:
            yield made
    except CfaggError:  # some of them are also OSError
        raise
    except OSError as error:
        raise TargetError(f"{path} cannot be written: {reason(error, path).replace(str(made), str(path))}") from error
    except RuntimeError as error:  # netCDF4 says so where HDF5 fails
        raise TargetError(f"{path} cannot be written: {str(error).replace(str(made), str(path))}") from error
