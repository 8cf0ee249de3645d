"""Opening files and reading sub-arrays from them.

`locate` finds a variable in a file and tells how it is stored; `read` gives a hyperslab of its stored values, `scan`
the same in parts.  Values
that stand at known places are read directly and decoded on all cores; everything else goes through the netCDF library.
"""

from __future__ import annotations

from cfagg.readers.find import locate, read, scan

__all__ = ["locate", "read", "scan"]
