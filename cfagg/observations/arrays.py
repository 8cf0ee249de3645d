"""What the arrays of an observation store are: their Zarr metadata, read from any source."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from cfagg.errors import LimitError, UnsupportedError
from cfagg.formats.zarr.codecs import Decoder
from cfagg.formats.zarr.documents import parse
from cfagg.formats.zarr.metadata import ZarrArray, array_of
from cfagg.model import Regular
from cfagg.storage.store import Source

__all__ = ["StoredArray", "open_stored", "read_json"]

#: Bytes of one metadata document.
MAX_DOCUMENT = 2**28


@dataclass(frozen=True, eq=False)
class StoredArray(ZarrArray):
    """An array of an observation store, whose rows are read by units: its metadata, nothing of its data."""

    #: ``zarr.json`` or ``.zarray`` as it is stored.
    text: bytes = field(default=b"", repr=False, kw_only=True)

    @cached_property
    def chunk(self) -> tuple[int, ...]:
        """Shape of what is decoded at once: of the chunks within shards where there are shards."""
        return tuple(int(a.chunk) for a in self.grid.axes if isinstance(a, Regular))

    @cached_property
    def held(self) -> tuple[int, ...]:
        """Shape of what is stored as one object."""
        return tuple(int(a.chunk) for a in self.objects.axes if isinstance(a, Regular))

    def object_key(self, *index: int) -> str:
        """Return the key of a stored object in the store."""
        return f"{self.path}/{self.key(index)}"

    @property
    def unit_decoder(self) -> Decoder | None:
        """How units are decoded, whose elements are in the order of the dimensions; `None` where zarr-python does."""
        return None if self.decoder is None or self.decoder.order is not None else self.decoder

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
        decoder = self.unit_decoder
        return decoder is not None and len(decoder.steps) == 1 and self.codecs in ("blosc", "bytes, blosc")


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
    if not all(isinstance(a, Regular) for g in (array.grid, array.objects) for a in g.axes):
        raise UnsupportedError(
            f"{source.path}: array {path!r} has chunks of several lengths; observation stores have equal chunks"
        )
    values = {f.name: getattr(array, f.name) for f in fields(array)} | {"opens": None}
    return StoredArray(**values, text=found[1])
