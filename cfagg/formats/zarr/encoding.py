"""Encoding chunks according to the metadata of their array, for all code that adds to an existing store.

Only lossless results are written: filters that may lose digits are tested, and raise an error if they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import ConformError, UnsupportedError
from cfagg.formats import fastzstd
from cfagg.formats.zarr.codecs import named
from cfagg.formats.zarr.metadata import ZarrArray

__all__ = ["Encoder", "encoder", "encoder_of", "holds_only", "padded", "shard_bytes", "shard_index"]

#: Offset and size of a chunk that is not in a shard.
_ABSENT = 2**64 - 1

#: Supported codecs of numcodecs, by identifier in Zarr v2; their names in v3 begin with ``numcodecs.``.
_BYTES = frozenset({"zstd", "blosc", "gzip", "zlib", "lz4", "bz2", "lzma", "shuffle", "fletcher32"})
_NUMBERS = frozenset({"delta", "fixedscaleoffset", "quantize", "astype", "bitround", "packbits"})
#: Those after which decoded values may differ.
_LOSSY = frozenset({"fixedscaleoffset", "quantize", "astype", "bitround", "delta"})

_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}

Step = Callable[[Any], Any]


@dataclass(frozen=True)
class Encoder:
    """The conversion of the elements of a whole chunk to its stored bytes; safe to use from any thread."""

    dtype: np.dtype[Any]  # of stored elements; `object` for text
    order: tuple[int, ...] | None  # dimensions in storage order, the slowest first; `None` for the array's order
    backward: bool  # elements are stored with the first dimension fastest (order F of Zarr v2)
    steps: tuple[Step, ...]
    lossy: tuple[Callable[[Any], Any], ...] = ()  # functions that undo the filters, if these may change values

    def encode(self, chunk: npt.NDArray[Any]) -> bytes:
        """Return the stored bytes of a chunk, which has its full shape even if it overhangs the array.

        Raises
        ------
        ConformError
            If the filters of the array would change its values.
        """
        ordered: Any = chunk if self.order is None else chunk.transpose(self.order)
        if self.dtype.kind != "O":
            ordered = np.asarray(ordered).astype(self.dtype, order="F" if self.backward else "C", copy=False)
        flat: Any = np.asarray(ordered).reshape(-1, order="F" if self.backward else "C")
        stored: Any = flat
        for k, step in enumerate(self.steps):
            stored = step(stored)
            if k + 1 == len(self.lossy):
                self._check(flat, stored)
        if isinstance(stored, np.ndarray):
            return bytes(np.ascontiguousarray(stored).reshape(-1).view(np.uint8).data)
        return bytes(stored)

    def _check(self, flat: npt.NDArray[Any], stored: Any) -> None:
        """Raise an error if decoding the filtered bytes does not restore the values."""
        for undo in reversed(self.lossy):
            stored = undo(stored)
        found = np.ascontiguousarray(stored).reshape(-1).view(np.uint8)
        if found.tobytes() != np.ascontiguousarray(flat).view(np.uint8).tobytes():
            raise ConformError(
                "the filters with which the array is stored would change values; convert the store without them first"
            )


def encoder(array: ZarrArray) -> Encoder:
    r"""Return the encoder for chunks of an array, or for those within its shards if it has any."""
    document = array.document
    if array.objects is not array.grid:
        document = {**document, "codecs": _shards(array)["codecs"]}
    return encoder_of(document, array.zarr_format, array.dtype, f"{array.store}: array {array.path!r}")


def _shards(array: ZarrArray) -> Mapping[str, Any]:
    """Return the configuration of the shards of an array."""
    codecs = array.document["codecs"]
    name, configuration = named(codecs[0])
    if name != "sharding_indexed" or len(codecs) != 1:
        raise UnsupportedError(
            f"{array.store}: array {array.path!r} compresses whole shards, which cfagg does not write"
        )
    return configuration


def encoder_of(document: Mapping[str, Any], zarr_format: int, dtype: np.dtype[Any], where: str) -> Encoder:
    """Return the encoder for chunks according to a metadata document; the type is that of elements in memory."""
    if zarr_format == 2:
        return _v2(document, dtype, where)
    rest = [named(c) for c in document["codecs"]]
    order: tuple[int, ...] | None = None
    while rest and rest[0][0] == "transpose":
        turned = rest.pop(0)[1]["order"]
        order = tuple(turned if order is None else (order[n] for n in turned))
    (first, configuration), *rest = rest or [("", {})]
    steps: list[Step] = []
    if first == "vlen-utf8" and dtype.kind == "O":
        steps.append(_text)
    elif first != "bytes" or dtype.kind == "O":
        raise _unknown(first, where)
    else:
        dtype = dtype.newbyteorder(">" if configuration.get("endian") == "big" else "<")
    steps += [_v3_step(name, given, dtype, where) for name, given in rest]
    return Encoder(dtype, order, False, tuple(steps))


def _v3_step(name: str, given: Mapping[str, Any], dtype: np.dtype[Any], where: str) -> Step:
    """Return one bytes-to-bytes codec of Zarr v3."""
    import numcodecs

    if name == "crc32c":
        return _crc32c
    codec: Any
    if name == "zstd":
        level, checksum = given.get("level", 0), bool(given.get("checksum", False))
        codec = numcodecs.Zstd(level=level, checksum=checksum)
        if not checksum and type(level) is int:
            return _zstd(codec.encode, codec.level)
    elif name == "gzip":
        codec = numcodecs.GZip(level=given.get("level", 5))
    elif name == "blosc":
        size = given.get("typesize") or dtype.itemsize
        shuffle = given.get("shuffle", "noshuffle")
        codec = numcodecs.Blosc(
            cname=given.get("cname", "zstd"), clevel=given.get("clevel", 5),
            shuffle=_SHUFFLES.get(shuffle, shuffle), blocksize=given.get("blocksize", 0),
        )  # fmt: skip
        return _sized(codec.encode, size)
    elif name.startswith("numcodecs.") and name.removeprefix("numcodecs.") in _BYTES:
        codec = numcodecs.get_codec({**given, "id": name.removeprefix("numcodecs.")})
    else:
        raise _unknown(name, where)
    return _plain(codec.encode)


def _v2(document: Mapping[str, Any], dtype: np.dtype[Any], where: str) -> Encoder:
    """Return the encoder of a Zarr v2 array."""
    import numcodecs

    steps: list[Step] = []
    undo: list[Callable[[Any], Any]] = []
    filters = list(document.get("filters") or [])
    is_text = dtype.kind == "O"
    if is_text:
        if not filters or filters.pop(0).get("id") != "vlen-utf8":
            raise _unknown("object", where)
        steps.append(_text)
    else:
        dtype = np.dtype(document["dtype"])
    for stage in filters:
        kind = stage.get("id")
        if kind not in _NUMBERS | _BYTES:
            raise _unknown(kind, where)
        codec = numcodecs.get_codec(dict(stage))
        steps.append(codec.encode)
        undo.append(codec.decode)
    has_loss = any(stage.get("id") in _LOSSY for stage in filters)
    given = document.get("compressor")
    if given:
        if given.get("id") not in _BYTES:
            raise _unknown(given.get("id"), where)
        steps.append(numcodecs.get_codec(dict(given)).encode)
    backward = document.get("order", "C") == "F"
    return Encoder(dtype, None, backward, tuple(steps), tuple(undo) if has_loss else ())


def shard_bytes(array: ZarrArray, chunks: Sequence[bytes | None]) -> bytes | None:
    """Return a shard from its encoded chunks in C order, `None` for missing ones; `None` without any."""
    configuration = _shards(array)
    checks = [named(c) for c in configuration["index_codecs"]]
    endian = checks[0][1].get("endian", "little")
    if checks[0][0] != "bytes" or [n for n, _ in checks[1:]] not in ([], ["crc32c"]):
        raise UnsupportedError(f"{array.store}: array {array.path!r} encodes the index of a shard in an unusual way")
    checksum = len(checks) > 1
    if all(chunk is None for chunk in chunks):
        return None
    at_start = configuration.get("index_location", "end") == "start"
    at = 16 * len(chunks) + 4 * checksum if at_start else 0
    places = []
    for chunk in chunks:
        places.append(None if chunk is None else (at, len(chunk)))
        at += 0 if chunk is None else len(chunk)
    tail = shard_index(places, endian=endian, checksum=checksum)
    body = [chunk for chunk in chunks if chunk is not None]
    return b"".join([tail, *body] if at_start else [*body, tail])


def shard_index(places: Sequence[tuple[int, int] | None], *, endian: str = "little", checksum: bool = True) -> bytes:
    """Return the index of a shard: offset and size of each chunk, or `None` for missing ones."""
    index = np.array([(_ABSENT, _ABSENT) if p is None else p for p in places], "<u8" if endian == "little" else ">u8")
    return _crc32c(index) if checksum else index.tobytes()


def _sized(encode: Step, size: int) -> Step:
    """Return Blosc on elements of a size, which it uses to sort their bytes."""
    kind = np.dtype(f"u{size}") if size in (1, 2, 4, 8) else np.dtype(f"V{size}")

    def sized(given: Any) -> Any:
        raw = np.frombuffer(given, np.uint8)
        return encode(raw.view(kind) if raw.size % size == 0 else raw)

    return sized


def _plain(encode: Step) -> Step:
    """Return a codec applied to bytes, for input of any type."""
    return lambda given: encode(np.frombuffer(given, np.uint8))


def _zstd(encode: Step, level: int) -> Step:
    """Return Zstd with a state that each thread keeps."""

    def zstd(given: Any) -> Any:
        raw = np.frombuffer(given, np.uint8)
        found = fastzstd.compress(raw, level)
        return encode(raw) if found is None else bytes(found)

    return zstd


def _text(given: Any) -> Any:
    import numcodecs

    values = np.asarray(given, object)
    try:
        return numcodecs.VLenUTF8().encode(values)
    except (UnicodeError, TypeError) as error:
        odd = next((v for v in values.reshape(-1) if not _is_unicode(v)), "")
        raise ConformError(f"{str(odd)[:40]!a} is not valid Unicode text; correct it") from error


def _is_unicode(value: Any) -> bool:
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def _crc32c(given: Any) -> bytes:
    """Return bytes followed by their checksum."""
    import google_crc32c

    raw = np.frombuffer(given, np.uint8)
    return raw.tobytes() + int(google_crc32c.value(raw)).to_bytes(4, "little")


def _unknown(name: Any, where: str) -> UnsupportedError:
    return UnsupportedError(
        f"{where} is stored with the codec {str(name)[:60]!r}, which cfagg does not write; convert the store first"
    )


def padded(chunk: npt.NDArray[Any], shape: Sequence[int], fill: Any) -> npt.NDArray[Any]:
    """Return a chunk in its full shape, with the fill value beyond the end of the array."""
    if chunk.shape == tuple(shape):
        return chunk
    whole = np.full(tuple(shape), fill, chunk.dtype)
    whole[tuple(slice(0, n) for n in chunk.shape)] = chunk
    return whole


def holds_only(values: npt.NDArray[Any], value: Any) -> bool:
    """Return whether all elements equal a value bit by bit, with NaN as in Zarr's metadata; -0.0 is not 0.0.

    >>> holds_only(np.array([0.0, -0.0]), 0.0), holds_only(np.array([np.nan, np.nan]), np.nan)
    (False, True)
    """
    if not values.size:
        return False
    if values.dtype.kind in "OS":
        return bool((values == value).all())
    wanted = np.asarray(value, values.dtype)
    if wanted != wanted:  # noqa: PLR0124  the metadata say no more than NaN
        wanted = np.asarray(np.nan, values.dtype)
    bits = np.dtype(f"u{values.dtype.itemsize}")
    same, found = wanted.view(bits), values.view(bits)
    last = (-1,) * values.ndim
    # Nearly always the first or last element decides.
    return bool(found[(0,) * values.ndim] == same and found[last] == same and (found == same).all())
