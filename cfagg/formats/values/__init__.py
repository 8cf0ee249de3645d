"""Opening files and reading sub-arrays from them.

`locate` finds a variable in a file and returns its storage; `read` returns a hyperslab of its stored values, `scan` the
same in parts.  Values at known positions are read directly and decoded on all cores; everything else goes through the
netCDF library. These functions are loaded on first use, so that the library's lock alone is quick to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cfagg.formats.values.find import is_only_a_dimension, locate, read, scan

__all__ = ["is_only_a_dimension", "locate", "read", "scan"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from cfagg.formats.values import find

        return getattr(find, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
