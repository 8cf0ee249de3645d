"""Bounded decoding of compression and checksums: the size of the result is known before and checked afterwards.

Every function takes the stored bytes and the fewest and the most bytes that they may decode to, and raises
`DamagedError` for anything else.  No function uses much more memory than `most`, whatever its input claims, and none
returns uninitialised memory: a stream that does not fill its result is an error.

Sources: RFC 1950, 1952 and 8878; the Blosc 1 frame format; numcodecs' forms of lz4, shuffle and the like; the HDF5
filters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits
from cfagg.errors import LimitError
from cfagg.formats import fastzlib, fastzstd

__all__ = [
    "Bytes",
    "DamagedError",
    "bunzip2",
    "check_chunk",
    "check_index",
    "encoded_most",
    "inflate",
    "stored_most",
    "strip_crc32c",
    "strip_fletcher32",
    "unblosc",
    "unlz4",
    "unlzma",
    "unshuffle",
    "unzstd",
]

Bytes = npt.NDArray[np.uint8]

#: Most decoded bytes of one block of a zstd frame.
_ZSTD_BLOCK = 1 << 17
_ZSTD, _SKIPPABLE = b"\x28\xb5\x2f\xfd", b"\x2a\x4d\x18"
#: Memory that decoding LZMA may use besides its result; the highest level of xz uses 65 MiB.
_LZMA_MEMORY = 1 << 27
#: Most bytes whose order NumPy restores faster than numcodecs.
_SHORT = 1 << 12
#: Bytes of a further stream that are passed first, since the library copies those that it does not use; there may be
#: millions of short streams.
_NEXT = 1 << 12
#: The message if a library cannot decode something, whatever reason it reports.
_DAMAGED = "its compressed stream is damaged"


class DamagedError(ValueError):
    """Stored bytes that do not decode to the expected chunk."""


def check_chunk(nbytes: int, where: str) -> None:
    """Raise `LimitError` if a chunk is too large to decode at once."""
    if nbytes > limits.MAX_CHUNK:
        raise LimitError(
            f"{where} takes {nbytes:,} bytes of memory at once, expected at most {limits.MAX_CHUNK:,}; if the data are "
            f"sound, set the environment variable CFAGG_MAX_CHUNK={nbytes} or cfagg.conventions.limits.MAX_CHUNK"
        )


def check_index(nbytes: int, where: str) -> None:
    """Raise `LimitError` if the index of a shard is too large to read at once."""
    if nbytes > limits.MAX_INDEX:
        raise LimitError(
            f"{where} takes {nbytes:,} bytes, expected at most {limits.MAX_INDEX:,}; if the data are sound, set "
            "cfagg.conventions.limits.MAX_INDEX"
        )


def encoded_most(most: int) -> int:
    """Return the most bytes that any compressor produces from `most` bytes."""
    return most + most // 8 + 65536


def stored_most(most: int) -> int:
    """Return the most bytes that are read from a store for a chunk of at most `most` bytes."""
    return 2 * most + 2**20


def inflate(stored: Any, fewest: int, most: int, out: Bytes | None = None, *, members: bool = True) -> Any:
    """Decode gzip or zlib, into `out` if given; gzip files may have several `members`."""
    if fewest == most:
        found = fastzlib.inflate(stored, most, out)
        if found is not None and (found[1] or not members):
            return found[0]
        # Errors and further members are handled below.
    return _streams(_inflater, fastzlib.ERRORS, stored, fewest, most, out, members=members)


def _inflater() -> Any:
    # 47: either header, recognised by its first bytes.
    return cast("Any", fastzlib.decompressobj)(47)


def bunzip2(stored: Any, fewest: int, most: int, out: Bytes | None = None) -> Any:
    """Decode bzip2, which may be several streams."""
    import bz2

    return _streams(bz2.BZ2Decompressor, (OSError, ValueError), stored, fewest, most, out)


def unlzma(stored: Any, fewest: int, most: int, out: Bytes | None = None) -> Any:
    """Decode the containers of LZMA, which may be several streams."""
    import lzma

    def stream() -> Any:
        return lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=_LZMA_MEMORY)

    return _streams(stream, (lzma.LZMAError, ValueError), stored, fewest, most, out)


def _streams(
    make: Callable[[], Any],
    errors: tuple[type[Exception], ...],
    stored: Any,
    fewest: int,
    most: int,
    out: Bytes | None,
    *,
    members: bool = True,
) -> Any:
    """Decode one stream after another, or only the first, with decompressors like those of the standard library."""
    parts, total = [], 0
    view = memoryview(stored)
    at, size = 0, len(view)
    try:
        while at < len(view):
            stream = make()
            given = view[at : at + size]
            # One byte too many is enough to show that the chunk is damaged, whatever its full size.
            part = stream.decompress(given, most - total + 1)
            if total + len(part) > most:
                raise DamagedError(f"it decodes to too many bytes, expected {most:,}")
            if not stream.eof and at + size < len(view):
                size *= 8
                continue
            if not stream.eof:
                raise DamagedError("its compressed stream ends early")
            parts.append(part)
            total += len(part)
            if not members:
                break
            at += len(given) - len(stream.unused_data)
            size = _NEXT
    except errors as error:
        if isinstance(error, DamagedError):
            raise
        # LZMA reports this in no other way.
        greedy = "memory usage limit" in str(error).lower()
        raise DamagedError("unpacking it exceeds the memory usage limit" if greedy else _DAMAGED) from error
    return _placed(parts, total, fewest, most, out)


def _placed(parts: list[bytes], total: int, fewest: int, most: int, out: Bytes | None) -> Any:
    """Return decoded parts as one, in the given memory if any."""
    _check_size(total, fewest, most)
    if out is None:
        return parts[0] if len(parts) == 1 else b"".join(parts)
    at = 0
    for part in parts:
        out[at : at + len(part)] = np.frombuffer(part, np.uint8)
        at += len(part)
    return out[:total]


def _check_size(size: int, fewest: int, most: int) -> None:
    if not fewest <= size <= most:
        expected = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
        raise DamagedError(f"it decodes to {size:,} bytes, expected {expected}")


def unzstd(stored: Any, fewest: int, most: int, out: Bytes | None = None) -> Any:
    """Decode zstd, which may be several frames, with or without their sizes."""
    if fewest == most:
        made = np.empty(most, np.uint8) if out is None else out[:most]
        if fastzstd.decompress(stored, made) == most:
            return made
        # Errors are reported below.
    from numcodecs import zstd

    size = _zstd_size(stored)
    # If several sizes are valid, further frames may add to that of the first.
    if size is None or not fewest <= size <= most or not size or fewest < most:
        size, most_possible = _zstd_total(stored)
        if size is None and 0 < fewest == most:
            # Decoded into memory of the only valid size; the library raises an error for any other.
            size = most
        elif size is None:
            if most_possible > encoded_most(2 * most):
                raise DamagedError("it does not give its decoded size")
            found = _run(zstd.decompress, stored)
            _check_size(len(found), fewest, most)
            return found
    return _into(zstd.decompress, stored, size, fewest, most, out)


def _zstd_size(stored: Any) -> int | None:
    """Return the decoded size in the header of a zstd frame (RFC 8878, section 3.1.1.1), or None if it has none."""
    head = bytes(memoryview(stored)[:18])
    if len(head) < 6 or not head.startswith(_ZSTD):
        if head[1:4] == _SKIPPABLE and head[0] & 0xF0 == 0x50:
            return 0
        raise DamagedError("it is not compressed with zstd")
    flag, single = head[4] >> 6, head[4] >> 5 & 1
    start = 5 + (1 - single) + (0, 1, 2, 4)[head[4] & 3]
    length = (single, 2, 4, 8)[flag]
    if not length:
        return None
    if len(head) < start + length:
        raise DamagedError("its header ends early")
    return int.from_bytes(head[start : start + length], "little") + (256 if length == 2 else 0)


def _zstd_total(stored: Any) -> tuple[int | None, int]:
    """Return the decoded size of all frames, `None` if one does not give it, and an upper bound of it."""
    view = memoryview(stored)
    total: int | None = 0
    most = at = 0
    while at < len(view):
        size = _zstd_size(view[at:])
        if view[at] & 0xF0 == 0x50:
            at += 8 + int.from_bytes(view[at + 4 : at + 8], "little")
            continue
        total = None if size is None or total is None else total + size
        kind = view[at + 4]
        at += 5 + (1 - (kind >> 5 & 1)) + (0, 1, 2, 4)[kind & 3] + (kind >> 5 & 1, 2, 4, 8)[kind >> 6]
        last = 0
        while not last:
            head = int.from_bytes(view[at : at + 3], "little")
            if at + 3 > len(view):
                raise DamagedError("its compressed stream ends early")
            last, form, length = head & 1, head >> 1 & 3, head >> 3
            at += 3 + (1 if form == 1 else length)
            most += length if form < 2 else _ZSTD_BLOCK
        at += 4 * (kind >> 2 & 1)
    return total, most


def unblosc(stored: Any, fewest: int, most: int, out: Bytes | None = None) -> Any:
    """Decode blosc, whose header gives both sizes."""
    from numcodecs import blosc

    view = memoryview(stored)
    if len(view) < 16:
        raise DamagedError(f"its {len(view)} bytes are too few for the header of blosc")
    size, packed = (int.from_bytes(view[a : a + 4], "little") for a in (4, 12))
    # The library would read beyond the end of a truncated stream.
    if packed > len(view):
        raise DamagedError(f"it has {len(view):,} of the {packed:,} bytes that its header gives")
    return _into(blosc.decompress, stored, size, fewest, most, out)


def unlz4(stored: Any, fewest: int, most: int, out: Bytes | None = None) -> Any:
    """Decode numcodecs' lz4, which begins with the decoded size."""
    from numcodecs import lz4

    view = memoryview(stored)
    if len(view) < 5:
        raise DamagedError(f"its {len(view)} bytes are too few for a size and a stream")
    return _into(lz4.decompress, stored, int.from_bytes(view[:4], "little"), fewest, most, out)


def _into(decompress: Callable[..., Any], stored: Any, size: int, fewest: int, most: int, out: Bytes | None) -> Bytes:
    """Return decoded bytes, written by the library into memory of exactly their number."""
    _check_size(size, fewest, most)
    made = np.empty(size, np.uint8) if out is None else out[:size]
    if size:
        try:
            decompress(stored, made)
        except (RuntimeError, ValueError) as error:
            raise DamagedError(f"{_DAMAGED}, or does not decode to the {size:,} bytes expected") from error
    return made


def _run(decompress: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return decompress(*arguments)
    except (RuntimeError, ValueError) as error:
        raise DamagedError(_DAMAGED) from error


def unshuffle(stored: Any, size: int, out: Bytes | None = None) -> Any:
    """Undo sorting bytes by their position in elements of `size` bytes; those of an incomplete element are last."""
    raw = np.frombuffer(stored, np.uint8)
    if size < 2 or raw.size < 2 * size:
        return raw
    whole = raw.size // size * size
    plain = np.empty(raw.size, np.uint8) if out is None or out.size < raw.size else out[: raw.size]
    if whole <= _SHORT:
        plain[:whole].reshape(-1, size)[...] = raw[:whole].reshape(size, -1).T
    else:
        from numcodecs.shuffle import Shuffle

        Shuffle(size).decode(raw[:whole], plain[:whole])
    plain[whole:] = raw[whole:]
    return plain


def strip_crc32c(stored: Any) -> Any:
    """Check and remove the checksum at the end, as in Zarr v3."""
    import google_crc32c

    view = memoryview(stored)
    if len(view) < 4:
        raise DamagedError(f"its {len(view)} bytes are too few for a checksum")
    # The library accepts contiguous arrays, but not every memory view.
    _check_sum(int(google_crc32c.value(np.frombuffer(view[:-4], np.uint8))), view[-4:])
    return view[:-4]


def strip_fletcher32(stored: Any) -> Any:
    """Check and remove the checksum at the end, as in HDF5."""
    from numcodecs.fletcher32 import Fletcher32

    view = memoryview(stored)
    if len(view) <= 4:
        raise DamagedError(f"its {len(view)} bytes are too few for a checksum and values")
    try:
        Fletcher32().decode(view)
    except RuntimeError:
        found = bytes(memoryview(Fletcher32().encode(np.frombuffer(view[:-4], np.uint8)))[-4:])
        # HDF5 up to 1.6.2 swapped the bytes of each half, which all later versions accept.
        if bytes(view[-4:]) != bytes(found[i] for i in (1, 0, 3, 2)):
            _check_sum(int.from_bytes(found, "little"), view[-4:])
    return view[:-4]


def _check_sum(found: int, written: Any) -> None:
    expected = int.from_bytes(written, "little")
    if found != expected:
        raise DamagedError(f"its checksum is {found:08x}, expected {expected:08x}")
