"""Standard input as a file, since rules access a dataset in any order, which a pipe does not allow."""

from __future__ import annotations

import os
import sys

from cfagg.errors import SourceError

__all__ = ["STANDARD_INPUT", "StandardInput", "saved_input"]


class StandardInput:
    """Represents the standard input of this process."""

    def __str__(self) -> str:
        return "standard input"


#: The only instance.
STANDARD_INPUT = StandardInput()


def saved_input() -> str:
    """Return the path of a temporary file with the content of standard input; the caller removes it."""
    # Imported here, since few checks read standard input, and these cost as much as the check of a small file.
    import shutil
    import tempfile

    handle, path = tempfile.mkstemp(prefix="cfagg-", suffix=".nc")
    try:
        with os.fdopen(handle, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
            size = file.tell()
    except BaseException:
        os.unlink(path)  # noqa: PTH108
        raise
    if not size:
        os.unlink(path)  # noqa: PTH108
        raise SourceError(f"{STANDARD_INPUT} is empty; pipe a netCDF file or CDL text into the command")
    return path
