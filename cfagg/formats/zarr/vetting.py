"""The documents of a store in a form that is safe for zarr-python."""

from __future__ import annotations

import json
import re
from typing import Any

from cfagg.errors import UnsupportedError
from cfagg.formats.zarr.codecs import named
from cfagg.formats.zarr.documents import parse
from cfagg.formats.zarr.grids import for_listing

__all__ = ["COARSE", "vetted"]

#: Attribute of an array whose actual chunks differ from its document.
COARSE = "_cfagg_coarse_chunks"

#: Codecs that execute data.
_CODE = frozenset({"pickle", "numcodecs.pickle"})

#: The netCDF library's type of characters, which have no byte order, and the form that zarr-python accepts.
_ORDERED, _PLAIN = re.compile(rb'("dtype"\s*:\s*")[<>](S\d+")'), rb"\1|\2"


def vetted(name: str, raw: bytes, where: str, *, coarse: bool = False) -> bytes:
    """Return the document of a name in a form that is safe for zarr-python."""
    # With `coarse`, an array with too many unequal chunks gets a grid of fewer chunks, which must not be used to read
    # it, and the attribute `COARSE`.
    if name == ".zattrs":
        return raw
    found = parse(raw, where)
    if _vet(found, where, coarse=coarse):
        return json.dumps(found).encode()
    return _ORDERED.sub(_PLAIN, raw) if name == ".zarray" else raw


def _vet(found: Any, where: str, *, coarse: bool) -> bool:
    """Shorten lists of equal chunks, and return whether there were any."""
    # Raises an error if metadata name a codec that executes code from the store, or too many chunks to list.
    waiting, changed = [found], False
    while waiting:
        one = waiting.pop()
        codecs = [one.get("id"), one.get("name")] if isinstance(one, dict) else one if isinstance(one, list) else ()
        if any(isinstance(c, str) and c.lower() in _CODE for c in codecs):
            raise UnsupportedError(
                f"{where} uses the codec 'pickle', which executes code from the store and is never used"
            )
        if isinstance(one, dict):
            if "chunk_grid" in one:
                grid = for_listing(
                    one["chunk_grid"], one.get("shape"), where, coarse=coarse, within=_within(one.get("codecs"))
                )
                changed |= grid is not one["chunk_grid"]
                if grid is not one["chunk_grid"] and grid["name"] == "regular":
                    one["attributes"] = {**(one.get("attributes") or {}), COARSE: True}
                one["chunk_grid"] = grid
            waiting += [v for k, v in one.items() if k != "attributes" and not k.endswith(".zattrs")]
        elif isinstance(one, list):
            waiting += one
    return changed


def _within(codecs: Any) -> Any:
    """Return the lengths of chunks in shards from metadata, or `None` if there are no shards."""
    found = [named(c) for c in codecs] if isinstance(codecs, list) else []
    return next((given.get("chunk_shape") for name, given in found if name == "sharding_indexed"), None)
