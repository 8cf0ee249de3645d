"""Files as readers see them: `cfagg.storage.files` and the pool of open ones, by the names that jobs use."""

from __future__ import annotations

from cfagg.storage.files import CONTEXT_SOURCE, Context, FileKey, absent, look

__all__ = ["CONTEXT_SOURCE", "Context", "FileKey", "absent", "look"]
