"""Mutants that no test can tell from the original, each with its reason; they are not tried.

Keyed by the module; then the line of the source, what is changed in it, and what it becomes.
"""

from __future__ import annotations

EQUIVALENTS: dict[str, dict[tuple[str, str, str], str]] = {
    "cfagg/formats/codecs.py": {
        ("part = stream.decompress(rest, most - total + 1)", "1", "2"): "a bound of memory, one byte larger",
        ("part = stream.decompress(rest, most - total + 1)", "most - total", "most + total"): "a bound of memory",
        ("return most + most // 8 + 65536", "65536", "65537"): "a bound, one byte larger",
        (
            "if len(head) < 6 or not head.startswith(_ZSTD):",
            "len(head) < 6",
            "len(head) <= 6",
        ): "no frame has less than nine bytes",
    },
}


def explained(path: str, text: str, before: str, after: str) -> str | None:
    """Return why a mutant is equivalent, or `None` where nothing is known of it."""
    return EQUIVALENTS.get(path, {}).get((text, before, after))
