"""Zarr stores of this machine as zarr-python may see them: checked files, and chunks that are decoded here.

zarr-python opens whatever is at a path, decodes without bounds, and runs any codec that metadata name, pickles among
them.  So it reads through a store that opens regular files within the directory only and refuses codecs that run code;
and the chunks of arrays that can be decoded here are handed to it as plain bytes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import zarr
from zarr.abc.store import ByteRequest

from cfagg.errors import (
    CfaggError,
    SourceError,
    SourceNotFoundError,
    UnsupportedError,
)
from cfagg.formats.zarr.checked_store import METADATA, CheckedStore, cut
from cfagg.formats.zarr.chunks import stored_chunk
from cfagg.formats.zarr.metadata import ZarrArray, open_array
from cfagg.formats.zarr.settings import unequal_chunks

__all__ = ["PlainStore", "described", "plain_array"]


class PlainStore(CheckedStore):
    """A store whose arrays are not compressed to those who read it; others are as they are."""

    def __init__(self, root: str | Path, *, allow: Iterable[str | os.PathLike[str]] = ()) -> None:
        super().__init__(root, allow=allow)
        self._arrays: dict[str, ZarrArray | None] = {}

    def array(self, path: str) -> ZarrArray | None:
        """Return an array whose chunks are decoded here, `None` where they are not."""
        if path not in self._arrays:
            self._arrays[path] = self.decoded(path)
        return self._arrays[path]

    def part(self, key: str, byte_range: ByteRequest | None) -> Any:
        """Return what zarr-python is given under a key."""
        home, _, name = key.rpartition("/")
        if name in (".zarray", "zarr.json"):
            array = self.array(home)
            if array is not None and name == (".zarray" if array.zarr_format == 2 else "zarr.json"):
                return cut(described(array), byte_range)
        elif name not in METADATA and self._arrays.get(home) is not None:
            array = self._arrays[home]
            assert array is not None  # noqa: S101  (just seen)
            chunk = stored_chunk(array, [int(n) for n in name.split(".")] if array.ndim else ())
            return None if chunk is None else cut(memoryview(chunk), byte_range)
        return super().part(key, byte_range)


def plain_array(store: str, path: str, zarr_format: int | None, allow: Iterable[str | os.PathLike[str]] = ()) -> Any:
    """Return an array of a store for reading, opened with zarr-python.

    Raises
    ------
    SourceError
        Its metadata are damaged.
    """
    form: Any = zarr_format
    try:
        with unequal_chunks():
            return zarr.open_array(PlainStore(store, allow=allow), path=path, mode="r", zarr_format=form)
    except CfaggError:
        raise
    except FileNotFoundError as error:
        raise SourceNotFoundError(f"{os.fspath(store)} has no Zarr array {path!r}") from error
    except Exception as error:  # as many kinds as there are ways to damage metadata
        where = f"{os.fspath(store)}: array {path!r}"
        try:
            open_array(store, path, allow=allow)
        except UnsupportedError as ours:
            raise SourceError(f"{where} has metadata that are not understood: {ours}") from error
        raise SourceError(f"{where} has metadata that violate the Zarr specification; write it again") from error


def described(array: ZarrArray) -> bytes:
    """Return the metadata of an array as if its chunks were stored as they are, under keys with dots."""
    document = dict(array.document)
    if array.zarr_format == 2:
        plain = {"compressor": None, "filters": None, "order": "C", "dimension_separator": "."}
        return json.dumps({**document, **plain}).encode()
    assert array.decoder is not None  # noqa: S101  (others are not described)
    big = array.decoder.swap == (sys.byteorder == "little")
    document["codecs"] = [{"name": "bytes", "configuration": {"endian": "big" if big else "little"}}]
    document["chunk_key_encoding"] = {"name": "v2", "configuration": {"separator": "."}}
    if array.shards is not None:
        document["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": list(array.shards.inner)}}
    return json.dumps(document).encode()
