"""Findings that a user has decided to live with: by rule, by file and by variable."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from cfagg.findings.finding import Finding

__all__ = ["Suppression", "suppressed"]


class Suppression(NamedTuple):
    """Findings that are not to be reported: codes or their beginnings, in files and variables of these patterns.

    ``*`` stands for anything; no pattern means all. Patterns of files without a slash are compared with the last part
    of the path, others with the path below `base`, the directory of the configuration, or the whole of it.
    """

    codes: tuple[str, ...]
    files: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    reason: str = ""
    base: str = ""

    def meant_for(self, source: str) -> bool:
        """Whether it is about this source."""
        if not self.files:
            return True
        if "://" in source:
            whole = below = source.rstrip("/")
        else:
            whole = os.path.abspath(source).replace(os.sep, "/")  # noqa: PTH100 - a name, not looked up
            start = self.base.replace(os.sep, "/").rstrip("/") + "/"
            below = whole.removeprefix(start)
        last = whole.rsplit("/", 1)[-1]
        return any(
            fnmatchcase(whole, p) or fnmatchcase(below, p) if "/" in p else fnmatchcase(last, p) for p in self.files
        )

    def hides(self, finding: Finding) -> bool:
        """Whether it is about this finding, of a source that it is meant for."""
        if not finding.code.startswith(self.codes):
            return False
        return not self.variables or any(fnmatchcase(finding.variable or "", p) for p in self.variables)

    def __str__(self) -> str:
        parts = [", ".join(self.codes)]
        if self.files:
            parts.append(f"in {', '.join(self.files)}")
        if self.variables:
            parts.append(f"of {', '.join(self.variables)}")
        return " ".join(parts)


def suppressed(
    source: str, findings: Iterable[Finding], ran: Sequence[str], suppressions: Sequence[Suppression]
) -> tuple[list[Finding], dict[int, int], tuple[int, ...]]:
    """Return the findings that remain, how many each suppression hid, and which ones could have hidden some.

    Findings about the check itself (``INT``) are never hidden.
    """
    meant = [(n, s) for n, s in enumerate(suppressions) if s.meant_for(source)]
    reached = tuple(n for n, s in meant if any(code.startswith(s.codes) for code in ran))
    hidden: dict[int, int] = {}
    kept = []
    for finding in findings:
        hits = [] if finding.code.startswith("INT") else [n for n, s in meant if s.hides(finding)]
        for n in hits:
            hidden[n] = hidden.get(n, 0) + 1
        if not hits:
            kept.append(finding)
    return kept, hidden, reached
