"""The version of cfagg, for those that may import nothing else of it."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
