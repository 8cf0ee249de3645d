"""What the arrays of an observation store are: their Zarr metadata, read from any source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from cfagg.errors import LimitError, UnsupportedError
from cfagg.formats.zarr.codecs import Decoder, decoder
from cfagg.formats.zarr.documents import parse
from cfagg.formats.zarr.metadata import array_of
from cfagg.formats.zarr.shards import Shards, find_shards
from cfagg.model import Regular
from cfagg.storage.store import Source

__all__ = ["StoredArray", "open_stored", "read_json"]

#: Bytes of one metadata document.
MAX_DOCUMENT = 2**28


@dataclass(frozen=True, eq=False)
class StoredArray:
    """A Zarr array of a store: its metadata, nothing of its data."""

    path: str
    zarr_format: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    #: Shape of what is decoded at once: of the chunks within shards where there are shards.
    chunk: tuple[int, ...]
    #: Shape of what is stored as one object.
    held: tuple[int, ...]
    fill_value: Any
    #: ``zarr.json`` or ``.zarray``, and its text as it is stored.
    document: Mapping[str, Any] = field(repr=False)
    text: bytes = field(repr=False)
    prefix: str = field(repr=False)
    separator: str = field(repr=False)

    def key(self, *index: int) -> str:
        """Return the key of a stored object in the store."""
        tail = self.separator.join(map(str, index))
        return f"{self.path}/{self.prefix}{self.separator if self.prefix else ''}{tail}"

    @property
    def sharded(self) -> bool:
        """Whether several chunks are stored as one object."""
        return self.shards is not None

    @cached_property
    def shards(self) -> Shards | None:
        """How shards are laid out, `None` where there are none."""
        return find_shards(self.document, self.dtype) if _has_shards(self.document) else None

    @cached_property
    def decoder(self) -> Decoder | None:
        """How chunks are decoded; `None` where it takes zarr-python."""
        if self.zarr_format == 3 and _has_shards(self.document):
            found = None if self.shards is None else self.shards.decoder
        else:
            found = decoder(self.document, self.zarr_format, self.dtype)
        # Units of rows are those of elements in the order of the dimensions.
        return None if found is None or found.order is not None else found

    @property
    def codecs(self) -> str:
        """Names of the codecs, for messages."""
        if self.zarr_format == 2:
            used = [*(self.document.get("filters") or ()), self.document.get("compressor")]
            names = [str(c["id"]) for c in used if isinstance(c, dict) and "id" in c]
        else:
            names = [str(c.get("name") if isinstance(c, dict) else c) for c in self.document.get("codecs", ())]
        return ", ".join(names) or "none"

    @property
    def blosc(self) -> bool:
        """Whether chunks are compressed with Blosc and nothing else, so that blocks of them can be decoded alone."""
        if self.decoder is None or len(self.decoder.steps) != 1:
            return False
        return self.codecs in ("blosc", "bytes, blosc")

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _has_shards(document: Mapping[str, Any]) -> bool:
    codecs: Any = document.get("codecs") or ()
    return len(codecs) == 1 and isinstance(codecs[0], dict) and codecs[0].get("name") == "sharding_indexed"


def read_json(source: Source, key: str) -> tuple[dict[str, Any], bytes] | None:
    """Return a JSON object of the store and its text, `None` where there is none."""
    text = source.read(key)
    if text is None:
        return None
    where = f"{source.path}/{key}"
    if len(text) > MAX_DOCUMENT:
        raise LimitError(f"{where} has {len(text):,} bytes, metadata are read up to {MAX_DOCUMENT:,}")
    return parse(text, where), text


def open_stored(source: Source, path: str) -> StoredArray | None:
    """Return what an array of a store is, `None` where there is no such array."""
    found = read_json(source, f"{path}/.zarray")
    key = "zarr.json" if found is None else ".zarray"
    if found is None:
        found = read_json(source, f"{path}/{key}")
        if found is None or found[0].get("node_type") != "array":
            return None
    # Attributes are not asked for: they may be a read from far away.
    array = array_of(source.path, path, {f"{path}/{key}": found[1]}.get, lambda _: None)
    grids = array.grid, array.objects
    if not all(isinstance(a, Regular) for g in grids for a in g.axes):
        raise UnsupportedError(
            f"{source.path}: array {path!r} has chunks of several lengths; observation stores have equal chunks"
        )
    chunk, held = (tuple(int(a.chunk) for a in g.axes if isinstance(a, Regular)) for g in grids)
    about = array.zarr_format, array.shape, array.dtype, chunk, held, array.fill_value
    return StoredArray(path, *about, *found, array.prefix, array.separator)
