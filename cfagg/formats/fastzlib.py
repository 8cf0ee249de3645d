"""Inflating and CRC-32 by ISA-L where it runs on the processor, else by the standard library's zlib.

Both give the same bytes.  ISA-L inflates more than twice as fast, and its checksum costs next to nothing.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from typing import Any

__all__ = ["ERRORS", "crc32", "decompressobj"]

_best: Any = zlib
with contextlib.suppress(ImportError):
    from isal import isal_zlib

    _best = isal_zlib

#: The error of either library, for damaged input.
ERRORS: tuple[type[Exception], ...] = tuple({zlib.error, _best.error})

crc32: Callable[..., int] = _best.crc32
decompressobj: Callable[[], Any] = _best.decompressobj
