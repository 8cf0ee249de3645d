"""Notebook display of an object: a headline, a table of facts, and lists to expand; everything is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cfagg.display.escape import escape
from cfagg.display.html import cell_html, page

__all__ = ["facts_html"]

#: Maximum number of lines of a list in a page.
_MOST = 200


def facts_html(
    head: str,
    facts: Iterable[tuple[str, object]],
    lists: Iterable[tuple[str, Sequence[object]]] = (),
    picture: str = "",
) -> str:
    """Return a headline, facts, a picture and lists as HTML.

    Facts without a value and empty lists are omitted, and long lists are cut; the picture is inserted unchanged.
    """
    rows = "".join(
        f"<tr>{cell_html(name, 'th')}{cell_html(str(value))}</tr>"
        for name, value in facts
        if value is not None and value != ""
    )
    parts = [f'<div class="cfagg-head"><span class="cfagg-name">{escape(head)}</span></div>']
    if rows:
        parts.append(f"<table>{rows}</table>")
    parts.append(picture)
    for title, lines in lists:
        if not lines:
            continue
        shown = "".join(f"<tr><td>{escape(str(line))}</td></tr>" for line in lines[:_MOST])
        if len(lines) > _MOST:
            shown += f"<tr><td>and {len(lines) - _MOST:,} more</td></tr>"
        summary = f"{escape(title)} ({len(lines):,})"
        parts.append(
            f'<details><summary>{summary}</summary><div class="cfagg-body"><table>{shown}</table></div></details>'
        )
    return page("".join(parts))
