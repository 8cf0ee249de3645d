"""Converting aggregations and netCDF files to Zarr stores.

`cfagg.convert` is this package and, called, its function: the name is the function's to users, whichever of the two was
imported first.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from cfagg.convert.converting import Report, convert

__all__ = ["Report", "convert"]


class _CallablePackage(ModuleType):
    """A package that hands calls to the function of its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Report:
        """Call `convert`."""
        return convert(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
