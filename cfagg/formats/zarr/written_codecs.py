"""Compression of new arrays: its metadata, and the compression of single chunks."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.formats import fastzstd
from cfagg.formats.fastzlib import crc32

__all__ = ["Codec", "content_checksum"]

#: Default level: zstd's fastest regular level compresses the packed integers and floats of this field to within a few
#: per cent of its higher ones, in less than half the time.
_LEVELS = {"zstd": 1, "blosc": 5, "gzip": 5, "none": 0}

#: Numbers of the kinds of sorting in Blosc and Zarr version 2.
_SHUFFLES = {"shuffle": 1, "bitshuffle": 2}


@dataclass(frozen=True)
class Codec:
    """A codec by name and level."""

    name: str  # "zstd", "blosc", "gzip" or "none"
    level: int | None = None
    inner: Literal["zstd", "lz4"] = "zstd"  # Blosc's compressor: "zstd" or "lz4"
    # Blosc's sorting before compression: "shuffle" for bytes, "bitshuffle" for bits
    shuffle: Literal["shuffle", "bitshuffle"] = "shuffle"

    @property
    def used_level(self) -> int:
        """The level that is applied."""
        return _LEVELS[self.name] if self.level is None else self.level

    def version_2(self) -> dict[str, Any] | None:
        """Return the compressor of Zarr version 2.

        >>> Codec("gzip", 3).version_2()
        {'id': 'gzip', 'level': 3}
        """
        if self.name == "none":
            return None
        if self.name != "blosc":
            return {"id": self.name, "level": self.used_level}
        shuffle = _SHUFFLES[self.shuffle]
        return {"id": "blosc", "cname": self.inner, "clevel": self.used_level, "shuffle": shuffle, "blocksize": 0}

    def version_3(self, typesize: int) -> list[dict[str, Any]]:
        """Return the codecs of Zarr version 3 after the one to bytes; `typesize` is the size of an element for Blosc.

        >>> Codec("zstd").version_3(4)
        [{'name': 'zstd', 'configuration': {'level': 1, 'checksum': False}}]
        """
        if self.name == "none":
            return []
        configuration: dict[str, Any] = {"level": self.used_level}
        if self.name == "zstd":
            configuration["checksum"] = False
        elif self.name == "blosc":
            configuration = {
                "typesize": typesize,
                "cname": self.inner,
                "clevel": self.used_level,
                "shuffle": self.shuffle,
                "blocksize": 0,
            }
        return [{"name": self.name, "configuration": configuration}]

    def lender(self) -> Callable[[npt.NDArray[Any]], Any]:
        """Return an `encoder` whose results may be in memory that the next call in the same thread reuses."""
        encode, level = self.encoder(), self.used_level
        if self.name != "zstd":
            return encode

        def zstd(chunk: npt.NDArray[Any]) -> Any:
            found = fastzstd.compress(chunk, level)
            return encode(chunk) if found is None else found

        return zstd

    def encoder(self) -> Callable[[npt.NDArray[Any]], Any]:
        """Return a function from a C-contiguous chunk to its stored bytes; safe to call from any thread."""
        if self.name == "none":
            return lambda chunk: memoryview(chunk.reshape(-1).view(np.uint8))
        if self.name == "gzip":
            level = self.used_level

            def gzip(chunk: npt.NDArray[Any]) -> bytes:
                # Unlike the gzip module, this writes no time stamp, so equal chunks are equal files.
                packer = zlib.compressobj(level, zlib.DEFLATED, 31)
                return packer.compress(memoryview(chunk.reshape(-1).view(np.uint8))) + packer.flush()

            return gzip
        encode: Callable[[npt.NDArray[Any]], Any] = self._numcodec().encode
        return encode

    def _numcodec(self) -> Any:
        """Return the codec of numcodecs, which zarr-python also uses."""
        import numcodecs

        if self.name == "zstd":
            return numcodecs.Zstd(level=self.used_level)
        if self.name == "gzip":
            return numcodecs.GZip(level=self.used_level)
        # It takes the size of elements from the chunk.
        return numcodecs.Blosc(cname=self.inner, clevel=self.used_level, shuffle=_SHUFFLES[self.shuffle])


def content_checksum(block: npt.NDArray[Any]) -> int:
    """Return the CRC-32 of the values of a chunk, for any memory layout."""
    # Strings count with their lengths, so that `["ab", "c"]` and `["a", "bc"]` differ.
    if block.dtype.kind in "OTU":
        crc = 0
        for text in block.reshape(-1):
            raw = str(text).encode("utf-8")
            crc = crc32(raw, crc32(len(raw).to_bytes(8, "little"), crc))
        return crc
    packed = np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<"))
    return crc32(packed.reshape(-1).view(np.uint8))
