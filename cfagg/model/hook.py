"""The hook that draws parts of the model in notebooks, which the model itself must not import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["html_hook", "html_of"]

#: The HTML representation for notebooks.  The model draws nothing itself; the package sets the function that does.
html_hook: Callable[[Any], str] | None = None


def html_of(part: Any) -> str | None:
    """Return a part of the model as HTML; without the hook, notebooks fall back to `__repr__`."""
    return None if html_hook is None else html_hook(part)
