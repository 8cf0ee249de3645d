"""Files as readers see them: `cfagg.storage.files` and the pool of open ones, by the names that jobs use."""

from __future__ import annotations

from cfagg.storage.files import CONTEXT_SOURCE, Context, FileKey, absent, look
from cfagg.storage.handles import handles

__all__ = ["CONTEXT_SOURCE", "Context", "FileKey", "absent", "look", "magic"]


def magic(path: str, context: Context = CONTEXT_SOURCE) -> bytes:
    """Return the first eight bytes of a regular file, fewer where it is shorter."""
    return handles.get(path, context).some(8, 0, context)
