"""The byte-offset index: where the chunks of thousands of fragments are, so that a read costs one open and one pread.

See docs/byte_offset_index.md.  What an index says is never more than a hint: it may be damaged, or of another state of
the files, and nothing becomes readable by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cfagg.arrays.index.building import build_index
    from cfagg.arrays.index.parquet import open_index, write_index
    from cfagg.arrays.index.rows import FileState
    from cfagg.arrays.index.table import Index

__all__ = ["SUFFIX", "FileState", "Index", "build_index", "open_index", "write_index"]

#: What the name of an index has behind that of its aggregation file.
SUFFIX = ".cfagg-index"

_HOMES = {"FileState": "rows", "Index": "table", "build_index": "building"}


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(f"cfagg.arrays.index.{_HOMES.get(name, 'parquet')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
