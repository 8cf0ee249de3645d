"""CDL, the text form of netCDF, as one of cfagg's formats."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from cfagg.errors import LimitError, SourceError

if TYPE_CHECKING:
    from cfagg.model.dataset import Dataset
    from cfagg.storage.files import Handle

__all__ = ["FORMAT", "Cdl", "open_text"]

_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s|//[^\n]*\n)*netcdf[\s{]")

#: Bytes of the longest text.
_LONGEST = 1 << 26


class Cdl:
    """A description that is open as long as it is parsed."""

    name = "CDL"

    def recognise(self, head: bytes, path: str) -> bool:  # noqa: ARG002
        """Tell whether a file begins as CDL does, perhaps behind comments."""
        return _START.match(head) is not None

    def open(self, handle: Handle) -> Dataset:
        """Return the dataset that a file describes; the file is closed."""
        dataset = open_text(handle.key.path, handle.key.size, lambda: handle.exactly(handle.key.size, 0), _LONGEST)
        handle.close()
        return dataset


def open_text(name: str, size: int, read: Callable[[], bytes], longest: int) -> Dataset:
    """Return the dataset that a text describes, which is read if it is not too long."""
    from cfagg.formats.cdl.parsing import parse_cdl

    if size > longest:
        raise LimitError(f"{name} has {size:,} bytes of CDL; up to {longest:,} are read")
    try:
        return parse_cdl(read().decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        raise SourceError(f"{name} is not UTF-8 text: {error}") from error


FORMAT = Cdl()
