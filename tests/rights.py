"""What a user who is not root may do: root reads and writes everything by capabilities, which are given up here."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

#: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
_OVERRIDE = 1 << 1 | 1 << 2


@contextmanager
def unprivileged() -> Iterator[None]:
    """Let the permissions of files hold for this thread, whoever runs the tests (Linux)."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    before = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, before) == 0, os.strerror(ctypes.get_errno())
    without = (ctypes.c_uint32 * 6)(*before)
    without[0] &= ~_OVERRIDE  # the effective ones of the first 32
    assert libc.capset(header, without) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0, os.strerror(ctypes.get_errno())
