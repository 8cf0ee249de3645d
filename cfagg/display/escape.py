"""Text from untrusted files, made safe for a terminal."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    r"""Return text in one line with every character that is not printable escaped.

    Names and attributes of an untrusted file may hold escape sequences that rewrite a terminal, line breaks that forge
    further lines of output, or marks that reverse the direction of writing.  Letters of all scripts stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
