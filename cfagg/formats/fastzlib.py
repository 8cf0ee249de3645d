"""Deflating, inflating and CRC-32 by ISA-L where it runs on the processor, else by the standard library's zlib.

Both inflate to the same bytes.  ISA-L inflates more than twice as fast, its checksum costs next to nothing, and it
deflates ten times as fast to the size of zlib's lowest levels.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from typing import Any

__all__ = ["ERRORS", "crc32", "decompressobj", "deflate"]

_best: Any = zlib
with contextlib.suppress(ImportError):
    from isal import isal_zlib

    _best = isal_zlib

#: The error of either library, for damaged input.
ERRORS: tuple[type[Exception], ...] = tuple({zlib.error, _best.error})

crc32: Callable[..., int] = _best.crc32
decompressobj: Callable[[], Any] = _best.decompressobj

#: Levels of zlib in whose place ISA-L's own is used: it packs as well as the first and nearly as the third.
_FAST = range(1, 4)


def deflate(data: Any, level: int) -> bytes:
    """Return bytes packed in the format of zlib, at one of its levels or about as well.

    >>> zlib.decompress(deflate(b"aaaa", 1))
    b'aaaa'
    """
    packed: bytes = _best.compress(data, 1) if level in _FAST else zlib.compress(data, level)
    return packed
