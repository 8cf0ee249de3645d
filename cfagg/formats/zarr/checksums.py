"""Checksums of stored bytes: 64 bits, from two polynomials that share no factor.

CRC-32 and CRC-32C together are the remainder of one division by the product of their polynomials: a burst of up to 64
bits is always detected, and of other changes one in 2**64 is not.  Both use processor instructions at some 10 GB/s,
whereas a cryptographic digest takes a nanosecond per byte.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import google_crc32c
import numpy as np

from cfagg.errors import FragmentReadError
from cfagg.formats.fastzlib import crc32
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.storage.files import close_read
from cfagg.storage.tree import open_file
from cfagg.storage.urls import Url

__all__ = ["checksum", "crc32c", "object_checksum"]

#: Bytes of a file that are read at a time.
_BLOCK = 1 << 22


def checksum(data: Any) -> int:
    """Return the checksum of bytes, as a signed number of 64 bits."""
    view = _bytes(data)
    return _joined(crc32(view), google_crc32c.value(view))


def crc32c(data: Any, before: int = 0) -> int:
    """Return CRC-32C of bytes that continue those with the checksum `before`."""
    return int(google_crc32c.extend(before, _bytes(data)))


def object_checksum(array: ZarrArray, held: Sequence[int]) -> tuple[int, int] | None:
    """Return size and checksum of a stored object, by its index in ``array.objects``, or `None` if not stored."""
    path = f"{array.folder}/{array.key(held)}"
    if isinstance(array.store, Url):
        from cfagg.formats.zarr.remote import open_object

        found = open_object(array.store, path, _BLOCK)
        if found is None:
            return None
        size = first = second = 0
        while block := found.pread(_BLOCK, size):
            first, second, size = crc32(block, first), google_crc32c.extend(second, block), size + len(block)
        return size, _joined(first, second)
    opened = open_file(array.store, path, array.allow)
    if opened is None:
        return None
    file = opened[0]
    try:
        size = first = second = 0
        while block := os.read(file, _BLOCK):
            first, second, size = crc32(block, first), google_crc32c.extend(second, block), size + len(block)
    except OSError as error:
        raise FragmentReadError(f"{path} cannot be read: {error.strerror or error}") from error
    finally:
        close_read(file)
    return size, _joined(first, second)


def _bytes(data: Any) -> Any:
    """Return an object that both libraries accept: one does not support memory views."""
    return data if isinstance(data, bytes) else np.frombuffer(data, np.uint8)


def _joined(first: int, second: int) -> int:
    value = first << 32 | second
    return value - 2**64 if value >= 2**63 else value
