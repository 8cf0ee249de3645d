"""Settings of zarr-python, and questions to it: arrays of chunks of unequal lengths, codecs it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cfagg.storage.locks import forkable

__all__ = ["no_codec", "open_plainly", "put_sync", "unequal_chunks"]


class _Setting:
    """The setting as long as anybody needs it."""

    def __init__(self) -> None:
        self.lock = forkable()
        self.users = 0
        self.made: Any = None


_setting = _Setting()


@contextmanager
def unequal_chunks() -> Iterator[None]:
    """Let zarr-python open arrays of chunks of unequal lengths.

    The setting is one of the whole process. The first of several threads makes it and the last one takes it back: each
    on its own would take it from another one at work, or bring back what that one had made.
    """
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
    """Return an array as zarr-python opens it, which raises whatever it likes."""
    import zarr

    with unequal_chunks():
        return zarr.open_array(store, path=path, mode="r", zarr_format=zarr_format)


def no_codec(error: Exception) -> str | None:
    """Return what to say where zarr-python does not know a codec, `None` of all other errors.

    zarr-python and numcodecs have a class each for it, the one of numcodecs is not in all its versions.
    """
    if type(error).__name__ != "UnknownCodecError":
        return None
    return f"uses a codec that is not installed: install the package that has it; zarr-python raises {error}"


def put_sync(store: Any, key: str, data: bytes) -> None:
    """Write an object into a store of zarr-python, and wait until it is there."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    sync(store.set(key, default_buffer_prototype().buffer.from_bytes(data)))


def clear_sync(store: Any) -> None:
    """Remove all that a store of zarr-python holds."""
    from zarr.core.sync import sync

    sync(store.clear())
