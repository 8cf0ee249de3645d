"""Text from untrusted files, made safe for a terminal and for a page."""

from __future__ import annotations

__all__ = ["escape", "printable"]


def printable(text: str) -> str:
    """Return text in one line with every non-printable character escaped.

    Names and attributes of an untrusted file may contain escape sequences that rewrite a terminal, line breaks that
    forge lines of output, or marks that reverse the direction of writing.  Letters of all scripts are kept.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def escape(text: str) -> str:
    """Return text for a page in HTML or SVG, as `printable` returns it for a terminal."""
    import html  # the command starts without it

    return html.escape(printable(text))
