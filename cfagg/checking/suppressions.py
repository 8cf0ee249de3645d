"""Suppressions: findings that a user accepts, by rule, file and variable."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from cfagg.findings.finding import Finding

__all__ = ["Hiding", "Suppression"]


class Suppression(NamedTuple):
    """Findings to hide: codes or prefixes of codes, in files and variables that match patterns.

    ``*`` matches anything, and no pattern means all. File patterns without a slash are compared with the last part of
    the path, others with the whole path or the part below `base`, the directory of the configuration.
    """

    codes: tuple[str, ...]
    files: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    reason: str = ""
    base: str = ""

    def meant_for(self, source: str) -> bool:
        """Whether the suppression applies to this source."""
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
        """Whether the suppression hides this finding, in a source that it applies to."""
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


class Hiding:
    """The suppressions meant for one source, and how many findings each has hidden, by its index."""

    def __init__(self, source: str, suppressions: Sequence[Suppression] = ()) -> None:
        self._meant = [(n, s) for n, s in enumerate(suppressions) if s.meant_for(source)]
        self.counts: Counter[int] = Counter()

    def hides(self, finding: Finding) -> bool:
        """Whether a suppression hides this finding, which is counted; those about the check itself are never hidden."""
        hits = [] if finding.code.startswith("INT") else [n for n, s in self._meant if s.hides(finding)]
        self.counts.update(hits)
        return bool(hits)

    def reached(self, ran: Sequence[str]) -> tuple[int, ...]:
        """Return the suppressions that could have hidden findings of the rules that ran."""
        return tuple(n for n, s in self._meant if any(code.startswith(s.codes) for code in ran))
