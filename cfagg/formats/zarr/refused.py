"""Documents that a server refuses to send because they are absent, where the user may not list what is there."""

from __future__ import annotations

from collections.abc import Callable

from cfagg.errors import AccessError

__all__ = ["read_or_absent"]

#: Documents of a group or array, and those that are never beside them.
_EXCLUDED_BY = {
    ".zarray": (".zgroup", "zarr.json"),
    ".zattrs": ("zarr.json",),
    ".zgroup": (".zarray", "zarr.json"),
    ".zmetadata": ("zarr.json",),
    "zarr.json": (".zarray", ".zgroup"),
}


def read_or_absent(read: Callable[[str], bytes | None], key: str) -> bytes | None:
    """Return a document, or `None` if it is absent, or refused where another may be read that excludes it."""
    try:
        return read(key)
    except AccessError:
        folder, slash, name = key.rpartition("/")
        if any(_is_readable(read, f"{folder}{slash}{other}") for other in _EXCLUDED_BY.get(name, ())):
            return None
        raise


def _is_readable(read: Callable[[str], bytes | None], key: str) -> bool:
    try:
        return read(key) is not None
    except AccessError:
        return False
