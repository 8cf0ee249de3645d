"""Sizes in bytes, and counts with their nouns, in readable form."""

from __future__ import annotations

__all__ = ["count_text", "size_text"]


def size_text(count: int) -> str:
    """Return a number of bytes in a suitable unit, a power of 1024."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> count_text(1, "file"), count_text(12000, "file")
    ('1 file', '12,000 files')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
