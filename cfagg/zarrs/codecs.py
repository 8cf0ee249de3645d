"""Decoding a chunk's bytes for the codecs that scientific stores use; all others are left to zarr-python.

Done here: ``bytes`` in either byte order, zstd, gzip, zlib, blosc, lz4, crc32c, and the filter shuffle of Zarr v2.  The
heavy steps run in C libraries outside Python's lock, the last one straight into the chunk's own memory.  A stream that
decodes to another size than the chunk's, or that ends early, is an error; so are wrong checksums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from cfagg import fastzlib

__all__ = ["DamagedError", "Decoder", "chain", "decoder", "named", "strip_crc32c"]

Bytes = npt.NDArray[np.uint8]
#: From stored bytes, and the number of bytes that must come out (-1: not known here), to decoded bytes.
Step = Callable[[Any, int], Any]


class DamagedError(ValueError):
    """Stored bytes that do not decode to the chunk that they should hold."""


@dataclass(frozen=True)
class Decoder:
    """How the bytes of a stored chunk become its elements in C order.

    Parameters
    ----------
    steps : tuple of callable
        The codecs to undo, in the order of undoing; empty where elements are stored as they are.
    swap : bool
        Whether the elements are stored in the other byte order.
    """

    steps: tuple[Step, ...]
    swap: bool

    @property
    def plain(self) -> bool:
        """Whether elements are stored as they are, so that parts of a chunk can be read alone."""
        return not self.steps

    def decode(self, stored: Any, nbytes: int) -> Bytes:
        """Return the bytes of a chunk, in the stored byte order.

        Parameters
        ----------
        stored : bytes-like
            What the store holds.
        nbytes : int
            Size of the whole chunk.

        Returns
        -------
        numpy.ndarray of uint8
            Writable unless the chunk is stored as it is.

        Raises
        ------
        DamagedError
            The bytes are damaged or are another number.
        """
        last = len(self.steps) - 1
        for i, step in enumerate(self.steps):
            stored = step(stored, nbytes if i == last else -1)
        out = stored if isinstance(stored, np.ndarray) else np.frombuffer(stored, np.uint8)
        if out.size != nbytes:
            raise DamagedError(f"it decodes to {out.size:,} bytes, expected {nbytes:,}")
        return out


def decoder(document: Mapping[str, Any], zarr_format: int, dtype: np.dtype[Any]) -> Decoder | None:
    """Return how chunks of an array are decoded; `None` where it takes a codec that is not done here.

    Parameters
    ----------
    document : mapping
        ``zarr.json`` or ``.zarray``.
    zarr_format : int
        3 or 2.
    dtype : numpy.dtype
        Type of the elements.

    Examples
    --------
    >>> decoder({"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}, 3, np.dtype("f4"))
    Decoder(steps=(), swap=True)
    >>> decoder({"codecs": ["bytes", {"name": "packbits"}]}, 3, np.dtype("u1")) is None
    True
    """
    return _v2(document, dtype) if zarr_format == 2 else chain(document["codecs"], dtype)


def _v2(document: Mapping[str, Any], dtype: np.dtype[Any]) -> Decoder | None:
    """Return the decoder of a Zarr v2 array."""
    if document.get("order", "C") == "F" and len(document["shape"]) > 1:
        return None
    stages = [*(document.get("filters") or ()), *([document["compressor"]] if document.get("compressor") else [])]
    steps: list[Step] = []
    for stage in reversed(stages):
        name = str(stage.get("id")) if isinstance(stage, dict) else ""
        if name == "crc32c":
            return None  # numcodecs' own form puts the checksum at either end
        if name == "shuffle" and isinstance(stage.get("elementsize", 4), int):
            steps.append(_shuffle(stage.get("elementsize", 4)))
        elif name in _STEPS:
            steps.append(_STEPS[name])
        else:
            return None
    return Decoder(tuple(steps), np.dtype(document["dtype"]) != dtype)


def chain(codecs: Sequence[Any], dtype: np.dtype[Any]) -> Decoder | None:
    """Return the decoder for a list of codecs of Zarr v3, `None` where one of them is not done here."""
    (first, configuration), *rest = [named(c) for c in codecs]
    endian = configuration.get("endian")
    if first != "bytes" or (endian not in ("little", "big") and (dtype.itemsize > 1 or endian is not None)):
        return None
    steps = [_STEPS.get(name) if name in _V3_NAMES else None for name, _ in reversed(rest)]
    if any(step is None for step in steps):
        return None
    stored = dtype.newbyteorder("<" if endian == "little" else ">")
    return Decoder(tuple(s for s in steps if s is not None), dtype.itemsize > 1 and stored != dtype)


def named(given: Any) -> tuple[str, Mapping[str, Any]]:
    """Return name and configuration of an extension point of Zarr v3, which may be written as its name alone.

    >>> named("bytes"), named({"name": "gzip", "configuration": {"level": 1}}), named(None)
    (('bytes', {}), ('gzip', {'level': 1}), ('', {}))
    """
    if isinstance(given, str):
        return given, {}
    if isinstance(given, dict) and isinstance(given.get("name"), str):
        configuration = given.get("configuration", {})
        return given["name"], configuration if isinstance(configuration, dict) else {}
    return "", {}


def strip_crc32c(stored: Any, expected: int) -> Any:  # noqa: ARG001
    """Check and remove the checksum at the end."""
    import google_crc32c

    view = memoryview(stored)
    if len(view) < 4:
        raise DamagedError(f"its {len(view)} bytes have no room for a checksum")
    said = int.from_bytes(view[-4:], "little")
    # The library takes contiguous arrays, and not every memory view.
    found = google_crc32c.value(np.frombuffer(view[:-4], np.uint8))
    if found != said:
        raise DamagedError(f"its checksum is {found:08x}, expected {said:08x}")
    return view[:-4]


def _zstd(stored: Any, expected: int) -> Any:
    """Undo zstd."""
    from numcodecs import zstd

    size = _zstd_size(stored) if expected >= 0 else -1
    return _into(zstd.decompress, stored, size, expected)


def _zstd_size(stored: Any) -> int:
    """Return the decoded size that a zstd frame's header gives, -1 where it gives none (RFC 8878, section 3.1.1.1)."""
    head = bytes(memoryview(stored)[:18])
    if len(head) < 6 or not head.startswith(b"\x28\xb5\x2f\xfd"):
        raise DamagedError("it is not compressed with zstd")
    flag, single = head[4] >> 6, head[4] >> 5 & 1
    start = 5 + (1 - single) + (0, 1, 2, 4)[head[4] & 3]
    length = (single, 2, 4, 8)[flag]
    if not length:
        return -1
    return int.from_bytes(head[start : start + length], "little") + (256 if length == 2 else 0)


def _blosc(stored: Any, expected: int) -> Any:
    """Undo blosc, whose header gives both sizes."""
    from numcodecs import blosc

    view = memoryview(stored)
    if len(view) < 16:
        raise DamagedError(f"its {len(view)} bytes have no room for the header of blosc")
    size, packed = (int.from_bytes(view[a : a + 4], "little") for a in (4, 12))
    # The library reads on where the stream ends too early.
    if packed > len(view):
        raise DamagedError(f"it has {len(view):,} of the {packed:,} bytes that its header gives")
    return _into(blosc.decompress, stored, size, expected)


def _lz4(stored: Any, expected: int) -> Any:
    """Undo numcodecs' lz4, which has the decoded size in front."""
    from numcodecs import lz4

    view = memoryview(stored)
    size = int.from_bytes(view[:4], "little") if len(view) >= 4 else -1
    return _into(lz4.decompress, stored, size, expected)


def _into(decompress: Callable[..., Any], stored: Any, size: int, expected: int) -> Any:
    """Return decoded bytes, written straight into their own array where their number is known and right."""
    try:
        if expected < 0 or size < 0:
            out = decompress(stored)
            return np.frombuffer(bytearray(out), np.uint8) if expected >= 0 else out
        if size != expected:
            raise DamagedError(f"it decodes to {size:,} bytes, expected {expected:,}")
        made = np.empty(expected, np.uint8)
        if expected:
            decompress(stored, made)
    except (RuntimeError, ValueError) as error:
        raise error if isinstance(error, DamagedError) else DamagedError(str(error)) from error
    return made


def _inflate(stored: Any, expected: int) -> Any:
    """Undo gzip or zlib; gzip files may hold several members."""
    out = []
    rest: Any = stored
    try:
        while len(rest):
            # 47: either header, recognised by its first bytes.
            stream = cast("Any", fastzlib.decompressobj)(47)
            # One byte too many is enough to know that the chunk is damaged, whatever it would grow to.
            out.append(stream.decompress(rest, max(0, expected + 1)))
            if not stream.eof:
                more = expected >= 0 and sum(map(len, out)) > expected
                raise DamagedError("it decodes to too many bytes" if more else "its compressed stream ends early")
            rest = stream.unused_data
    except fastzlib.ERRORS as error:
        raise DamagedError(str(error)) from error
    whole = out[0] if len(out) == 1 else b"".join(out)
    return np.frombuffer(bytearray(whole), np.uint8) if expected >= 0 else whole


def _shuffle(size: int) -> Step:
    """Return the step that undoes numcodecs' shuffle: bytes were sorted by their place within the element."""

    def unshuffle(stored: Any, expected: int) -> Any:  # noqa: ARG001
        given = np.frombuffer(stored, np.uint8)
        if size <= 1:
            return given
        if given.size % size:
            raise DamagedError(f"its {given.size:,} bytes are no whole number of elements of {size}")
        return np.ascontiguousarray(given.reshape(size, -1).T).reshape(-1)

    return unshuffle


_STEPS: Mapping[str, Step] = {
    "zstd": _zstd,
    "blosc": _blosc,
    "lz4": _lz4,
    "gzip": _inflate,
    "zlib": _inflate,
    "crc32c": strip_crc32c,
}
_V3_NAMES = frozenset({"zstd", "blosc", "gzip", "crc32c"})
