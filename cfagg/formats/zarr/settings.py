"""Settings and helpers for zarr-python: arrays of chunks of unequal lengths, codecs it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from cfagg.errors import FragmentReadError
from cfagg.storage.locks import forkable

__all__ = ["no_codec", "open_plainly", "put_sync", "text_of", "unequal_chunks"]


class _Setting:
    """The setting, as long as any thread needs it."""

    def __init__(self) -> None:
        self.lock = forkable()
        self.users = 0
        self.made: Any = None


_setting = _Setting()


@contextmanager
def unequal_chunks() -> Iterator[None]:
    """Let zarr-python open arrays of chunks of unequal lengths."""
    # The setting is global to the process. The first of several threads enables it and the last one restores it:
    # otherwise one could disable it while another is at work, or restore the other's value.
    import zarr

    with _setting.lock:
        if not _setting.users:
            _setting.made = zarr.config.set({"array.rectilinear_chunks": True})
        _setting.users += 1
    try:
        yield
    finally:
        with _setting.lock:
            _setting.users -= 1
            if not _setting.users:
                _setting.made.__exit__(None, None, None)


def open_plainly(store: Any, path: str, zarr_format: Any) -> Any:
    """Return an array opened by zarr-python, which may raise any exception."""
    import zarr

    with unequal_chunks():
        return zarr.open_array(store, path=path, mode="r", zarr_format=zarr_format)


def no_codec(error: Exception) -> str | None:
    """Return a message if zarr-python does not know a codec, or `None` for all other errors."""
    # zarr-python and numcodecs each have a class for it, that of numcodecs not in all versions.
    if type(error).__name__ != "UnknownCodecError":
        return None
    return f"uses a codec that is not installed: install the package that has it; zarr-python raises {error}"


def text_of(values: Any, where: str) -> Any:
    """Return values as zarr-python read them; raise an error for code points of text that Unicode lacks."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "U" and values.dtype.itemsize:
        points = np.ascontiguousarray(values).reshape(-1).view(np.dtype("u4").newbyteorder(values.dtype.byteorder))
        bad = points[(points > 0x10FFFF) | ((points >= 0xD800) & (points < 0xE000))]
        if bad.size:
            raise FragmentReadError(
                f"{where} is damaged: its text has the code point {int(bad[0]):#x}, which Unicode lacks; write it again"
            )
    return values


def put_sync(store: Any, key: str, data: bytes) -> None:
    """Write an object to a store of zarr-python, and wait until it is stored."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    sync(store.set(key, default_buffer_prototype().buffer.from_bytes(data)))


def clear_sync(store: Any) -> None:
    """Remove everything in a store of zarr-python."""
    from zarr.core.sync import sync

    sync(store.clear())
