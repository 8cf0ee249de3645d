"""CDL, the text form of netCDF, as one of cfagg's formats."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cfagg.errors import LimitError, SourceError

if TYPE_CHECKING:
    from cfagg.model.dataset import Dataset
    from cfagg.storage.files import Handle

__all__ = ["FORMAT", "Cdl"]

_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s|//[^\n]*\n)*netcdf[\s{]")

#: Bytes of the longest text, local and remote.
_LONGEST, _FAR = 1 << 26, 1 << 24


class Cdl:
    """A description whose file is open only while it is parsed."""

    name = "CDL"

    def recognise(self, head: bytes, path: str) -> bool:  # noqa: ARG002
        """Return whether a file begins like CDL, perhaps after comments."""
        return _START.match(head) is not None

    def open(self, handle: Handle) -> Dataset:
        """Return the dataset that a file describes; the file is closed."""
        from cfagg.formats.cdl.parsing import parse_cdl

        name, size = handle.key.path, handle.key.size
        longest = _LONGEST if handle.data is None else _FAR
        if size > longest:
            raise LimitError(f"{name} has {size:,} bytes of CDL; up to {longest:,} are read")
        try:
            dataset = parse_cdl(handle.exactly(size, 0).decode("utf-8-sig"), name)
        except UnicodeDecodeError as error:
            raise SourceError(f"{name} is not UTF-8 text: {error}") from error
        handle.close()
        return dataset


FORMAT = Cdl()
