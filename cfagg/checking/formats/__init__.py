"""The forms in which a check is told: each turns results, as they come, into pieces of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module

from cfagg.checking.report import Checked
from cfagg.errors import OptionError

__all__ = ["FORMATS", "Style", "pieces"]

#: Name -> module with ``pieces(results, style)``.
FORMATS = {
    "text": "cfagg.checking.formats.text",
    "json": "cfagg.checking.formats.as_json",
    "sarif": "cfagg.checking.formats.sarif",
    "junit": "cfagg.checking.formats.junit",
    "github": "cfagg.checking.formats.github",
    "html": "cfagg.checking.formats.html",
}


@dataclass(frozen=True, slots=True)
class Style:
    """How a check is told.

    Parameters
    ----------
    colour : bool
        Use the colours of a terminal.
    width : int or None
        Columns of the terminal; `None` does not break lines.
    skipped : bool
        Tell the rules that were not run as well.
    statistics : bool
        Tell how many findings there are of each rule instead of the single ones.
    strict : bool
        Warnings fail as errors do.
    """

    colour: bool = False
    width: int | None = None
    skipped: bool = False
    statistics: bool = False
    strict: bool = False


def pieces(format: str, results: Iterable[Checked], style: Style) -> Iterator[str]:  # noqa: A002 - the word of the CLI
    """Yield the text of a check piece by piece.

    Parameters
    ----------
    format : str
        One of `FORMATS`.
    results : iterable of Checked
        They are taken one by one and not kept.
    style : Style
        How it is told.

    Raises
    ------
    OptionError
        If there is no such format.
    """
    if format not in FORMATS:
        raise OptionError(f"{format!r} is not a format; there are {', '.join(FORMATS)}")
    yield from import_module(FORMATS[format]).pieces(results, style)
