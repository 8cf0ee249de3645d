"""What was made of many files, as a page."""

from __future__ import annotations

from cfagg.display.joined import JoinedFacts, joined_lines

__all__ = ["joined_page"]


def joined_page(facts: JoinedFacts) -> str:
    """Return a page that needs no other file."""
    from html import escape

    return f"<!DOCTYPE html><pre>{escape(chr(10).join(joined_lines(facts)))}</pre>"
