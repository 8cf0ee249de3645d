"""Text from untrusted files, made safe for a terminal."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """Return text in one line with every non-printable character escaped.

    Names and attributes of an untrusted file may contain escape sequences that rewrite a terminal, line breaks that
    forge lines of output, or marks that reverse the direction of writing.  Letters of all scripts are kept.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
