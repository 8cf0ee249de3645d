"""Messages of the library in the words of the command: options instead of keywords of Python."""

from __future__ import annotations

import re

__all__ = ["as_options"]

#: ``overwrite=True (--overwrite)`` and ``allow=['x'] or, on the command line, --allow x``: both forms together.
_BOTH = re.compile(r"\b[a-z_]+=(?:True|\[[^\]]*\]|'[^']*'|\"[^\"]*\")(?: \((--[^)]*)\)| or, on the command line, (--))")

#: A keyword alone, with a value that an option can have.
_ALONE = re.compile(
    r"\b(adopt|allow|append|chunks|client|full|level|memory|missing|on_loss|overwrite|resume|trust_for|variables|verify"
    r"|weights|workers)=(True\b|None\b|\[([^\]]*)\]|'([^']*)'|\"([^\"]*)\"|[\d.]+\b)?"
)

#: Keywords whose option has another name.
_NAMES = {"variables": "variable", "client": "dask"}


def as_options(message: str) -> str:
    """Return a message with the options of the command in place of the keywords of Python.

    Parameters
    ----------
    message : str
        As the library raises it.

    Examples
    --------
    >>> as_options("replace it with overwrite=True (--overwrite)")
    'replace it with --overwrite'
    >>> as_options("pass allow=['/data'] or, on the command line, --allow /data")
    'pass --allow /data'
    >>> as_options("pass missing='fill' to read missing values there")
    'pass --missing fill to read missing values there'
    """
    message = _BOTH.sub(lambda found: found[1] or found[2], message)
    return _ALONE.sub(_option, message)


def _option(found: re.Match[str]) -> str:
    name = _NAMES.get(found[1], found[1]).replace("_", "-")
    value = found[2]
    if value in (None, "True"):
        return f"--{name}"
    if value == "None":
        return f"no --{name}"
    inner = next((g for g in found.groups()[2:] if g is not None), value)
    words = [word.strip().strip("'\"") for word in inner.split(",")]
    return f"--{name} {words[0]}" if len(words) == 1 else " ".join(f"--{name} {word}" for word in words)
