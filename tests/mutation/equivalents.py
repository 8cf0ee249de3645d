"""Mutants that no test can tell from the original, each with its reason; they are not tried.

Keyed by the module; then the line of the source, what is changed in it, and what it becomes.
"""

from __future__ import annotations

EQUIVALENTS: dict[str, dict[tuple[str, str, str], str]] = {}


def explained(path: str, text: str, before: str, after: str) -> str | None:
    """Return why a mutant is equivalent, or `None` where nothing is known of it."""
    return EQUIVALENTS.get(path, {}).get((text, before, after))
