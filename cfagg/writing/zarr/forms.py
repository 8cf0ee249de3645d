"""The stored form of the chunks of an array, in Zarr v3 terms: arrays of the same form may share stored chunks.

Encoder settings (levels, block sizes) are not part of it, since decoding does not need them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfagg.formats.zarr.codecs import named
from cfagg.formats.zarr.metadata import ZarrArray

__all__ = ["Form", "form_of"]

#: Codec parameters that only affect encoding; Blosc frames record their settings themselves.
_PACKING = {
    "zstd": {"level", "checksum"},
    "gzip": {"level"},
    "blosc": {"cname", "clevel", "shuffle", "typesize", "blocksize"},
    "crc32c": set[str](),
}

_SHUFFLES = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}


@dataclass(frozen=True, eq=False)
class Form:
    """The form of an array; other arrays with the same `key` may reuse its chunks."""

    data_type: Any  # of Zarr v3
    codecs: Sequence[Mapping[str, Any]]  # of a chunk, or of the chunks within shards
    shards: Mapping[str, Any] | None  # configuration of shards without codecs
    fill: Any  # as JSON
    key: str

    @property
    def all_codecs(self) -> list[Mapping[str, Any]]:
        """The codecs as in an array's document."""
        if self.shards is None:
            return list(self.codecs)
        return [{"name": "sharding_indexed", "configuration": {**self.shards, "codecs": list(self.codecs)}}]

    @property
    def shard_key(self) -> str:
        """The additional properties that must match for shards."""
        return json.dumps(self.shards, sort_keys=True)

    def without_shards(self) -> Form:
        """Return the same form for an array without shards."""
        return Form(self.data_type, self.codecs, None, self.fill, self.key)


def form_of(array: ZarrArray) -> Form | None:
    """Return the form of an array, or `None` if Zarr v3 cannot express it or only zarr-python can decode it."""
    if array.decoder is None:
        return None
    if array.zarr_format == 2:
        return _of_v2(array)
    document = array.document
    shards = None
    codecs = document["codecs"]
    if array.objects is not array.grid:
        shards = dict(named(codecs[0])[1])
        codecs = shards.pop("codecs")
    data_type = document["data_type"]
    return Form(data_type, codecs, shards, document["fill_value"], _key(data_type, codecs, array.dtype))


def _of_v2(array: ZarrArray) -> Form | None:
    """Return the form of a Zarr v2 array, which decodes like a version 3 array with these codecs."""
    document = array.document
    stored = np.dtype(document["dtype"])
    if document.get("filters") or stored.kind not in "biuf":
        return None
    codecs: list[dict[str, Any]] = []
    if document.get("order", "C") == "F" and array.ndim > 1:
        codecs.append({"name": "transpose", "configuration": {"order": list(range(array.ndim))[::-1]}})
    first: dict[str, Any] = {"name": "bytes"}
    if stored.itemsize > 1:
        first["configuration"] = {"endian": "big" if stored.str[0] == ">" else "little"}
    codecs.append(first)
    packing = _compressor(document.get("compressor"), stored.itemsize)
    if packing is None:
        return None
    codecs += packing
    name = "bool" if stored.kind == "b" else array.dtype.name
    fill = document.get("fill_value")
    if fill is None:
        fill = False if stored.kind == "b" else 0
    return Form(name, codecs, None, fill, _key(name, codecs, array.dtype))


def _compressor(given: Mapping[str, Any] | None, itemsize: int) -> list[dict[str, Any]] | None:
    """Return the version 3 codecs equivalent to a version 2 compressor, or `None` if there are none."""
    if not given:
        return []
    name = given.get("id")
    said: dict[str, Any]
    if name == "zstd":
        said = {"level": int(given.get("level", 0)), "checksum": bool(given.get("checksum", False))}
    elif name == "gzip":
        said = {"level": int(given.get("level", 5))}
    elif name == "blosc" and given.get("shuffle", 1) in (-1, 0, 1, 2):
        shuffle = given.get("shuffle", 1)
        automatic = "bitshuffle" if itemsize == 1 else "shuffle"
        said = {
            "typesize": itemsize,
            "cname": str(given.get("cname", "lz4")),
            "clevel": int(given.get("clevel", 5)),
            "shuffle": automatic if shuffle == -1 else _SHUFFLES[shuffle],
            "blocksize": int(given.get("blocksize", 0)),
        }
    else:
        return None
    return [{"name": name, "configuration": said}]


def _key(data_type: Any, codecs: Sequence[Any], dtype: np.dtype[Any]) -> str:
    """Return the key that two arrays must share for one to decode chunks of the other."""
    steps = []
    for codec in codecs:
        name, configuration = named(codec)
        said = {k: v for k, v in configuration.items() if k not in _PACKING.get(name, set())}
        if name == "bytes" and dtype.itemsize == 1:
            said = {}
        steps.append([name, said])
    return json.dumps([data_type, steps], sort_keys=True)
