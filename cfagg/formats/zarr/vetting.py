"""The documents of a store as zarr-python may be given them."""

from __future__ import annotations

import json
import re
from typing import Any

from cfagg.errors import UnsupportedError
from cfagg.formats.zarr.documents import parse
from cfagg.formats.zarr.grids import for_listing

__all__ = ["vetted"]

#: Codecs that run what they read.
_CODE = frozenset({"pickle", "numcodecs.pickle"})

#: How the netCDF library writes the type of characters, which have no order of bytes, and what zarr-python takes.
_ORDERED, _PLAIN = re.compile(rb'("dtype"\s*:\s*")[<>](S\d+")'), rb"\1|\2"


def vetted(name: str, raw: bytes, where: str) -> bytes:
    """Return the document of a name as zarr-python may be given it."""
    if name == ".zattrs":
        return raw
    found = parse(raw, where)
    if _vet(found, where):
        return json.dumps(found).encode()
    return _ORDERED.sub(_PLAIN, raw) if name == ".zarray" else raw


def _vet(found: Any, where: str) -> bool:
    """Make lists of equal chunks short, and return whether there were any.

    Raises where metadata name a codec that runs code which the store holds, or chunks that nobody can list.
    """
    waiting, changed = [found], False
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if any(isinstance(one.get(k), str) and one[k].lower() in _CODE for k in ("id", "name")):
                raise UnsupportedError(f"{where} uses the codec 'pickle', which executes what it reads: never used")
            if "chunk_grid" in one:
                grid = for_listing(one["chunk_grid"], one.get("shape"), where)
                changed |= grid is not one["chunk_grid"]
                one["chunk_grid"] = grid
            waiting += [v for k, v in one.items() if k != "attributes" and not k.endswith(".zattrs")]
        elif isinstance(one, list):
            if any(isinstance(c, str) and c.lower() in _CODE for c in one):
                raise UnsupportedError(f"{where} uses the codec 'pickle', which executes what it reads: never used")
            waiting += one
    return changed
