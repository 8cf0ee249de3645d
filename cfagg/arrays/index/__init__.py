"""The byte-offset index: locations of the chunks of thousands of fragments, so a read costs one open and one pread.

See docs/byte_offset_index.md.  An index is never more than a hint: it may be damaged, or describe another state of the
files, and it makes nothing readable that was not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cfagg.arrays.index.building import build_index
    from cfagg.arrays.index.parquet import open_index, write_index
    from cfagg.arrays.index.rows import FileState
    from cfagg.arrays.index.table import Index

__all__ = ["SUFFIX", "FileState", "Index", "build_index", "open_index", "write_index"]

#: Suffix added to the name of an aggregation file for that of its index.
SUFFIX = ".cfagg-index"

_HOMES = {"FileState": "rows", "Index": "table", "build_index": "building"}


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(f"cfagg.arrays.index.{_HOMES.get(name, 'parquet')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
