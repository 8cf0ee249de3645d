"""A check as workflow commands, which GitHub shows as annotations of files.

Source: GitHub's documentation, "Workflow commands for GitHub Actions".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cfagg.checking.formats import Once, Style, not_listed
from cfagg.checking.outcome import Outcome
from cfagg.display.escape import printable

__all__ = ["render"]

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render(results: Iterable[Outcome], style: Style) -> Iterator[str]:
    """Yield one line for each finding, and one for each rule with more findings than are listed."""
    del style
    once = Once()
    for result in results:
        for finding in filter(once.shows, result.findings):
            place = f"{finding.where}: " if finding.where else ""
            yield (
                f"::{_COMMANDS[finding.severity]} file={_property(result.source)},"
                f"title={_property(finding.code)}::{_data(place + finding.message)}\n"
            )
        for code, said in not_listed(result):
            yield f"::notice file={_property(result.source)},title={_property(code)}::{said}\n"
    yield from (f"::notice title={_property(code)}::{said}\n" for code, said in once.rest())


def _data(text: str) -> str:
    r"""Return a message with the characters that would end it escaped."""
    parts = (printable(line) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return "%0A".join(part.replace("%", "%25") for part in parts)


def _property(text: str) -> str:
    """Return the value of a property with the characters that would end it escaped."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
