"""Memory that shows whether a decoder has left some of it as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from cfagg.formats.codecs import DamagedError

#: What new memory is full of, one after the other: bytes that are left show as a difference.
POISONS = (0xA5, 0x5A)


@contextmanager
def poisoned(poison: int) -> Iterator[None]:
    """Let new memory of NumPy hold nothing but this byte."""
    empty = np.empty

    def full(*arguments: Any, **keywords: Any) -> Any:
        made = empty(*arguments, **keywords)
        if made.nbytes and not made.dtype.hasobject:
            made.reshape(-1).view(np.uint8)[...] = poison
        return made

    with mock.patch.object(np, "empty", full):
        yield


def outcome(decode: Callable[[int], Any]) -> bytes | None:
    """Return what is decoded, `None` where it is refused; the same whatever the memory held before."""
    found = []
    for poison in POISONS:
        with poisoned(poison):
            try:
                found.append(np.ascontiguousarray(decode(poison)).tobytes())
            except DamagedError:
                found.append(None)
    assert found[0] == found[1], "memory that was not written is part of the result"
    return found[0]


def damaged_forms(stored: bytes, other: bytes) -> dict[str, bytes]:
    """Return ways in which stored bytes can be damaged; `other` are those of half as many values."""
    forms = {
        "empty": b"",
        "shorter content": other,
        "longer content": stored + stored,
        "other after it": stored + other,
        "other before it": other + stored,
        "two halves": other + other,
        "garbage after it": stored + b"garbage",
        "zeros after it": stored + bytes(64),
        "zeros": bytes(len(stored)),
    }
    for cut in sorted({1, 2, 3, 4, 5, 8, 12, 16, 17, len(stored) // 2, len(stored) - 4, len(stored) - 1}):
        forms[f"cut at {cut}"] = stored[:cut]
    for at in sorted({*range(min(24, len(stored))), len(stored) // 2, len(stored) - 5, len(stored) - 1}):
        for bit in (1, 128):
            flipped = bytearray(stored)
            flipped[at] ^= bit
            forms[f"bit {bit} of byte {at}"] = bytes(flipped)
    return forms
