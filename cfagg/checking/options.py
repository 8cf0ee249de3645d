"""What a user may ask of a check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may ask of a check.

    Parameters
    ----------
    cf_version : str, optional
        The version to check against instead of the one that the dataset claims, such as ``"1.8"``.
    data : bool
        Whether values are read too.
    references : bool
        Whether the files that aggregations refer to are opened.
    allow : tuple of str
        Places that references may lead to, beside the dataset's own.
    select, ignore : tuple of str
        Codes of rules or their beginnings: only these, and not these.
    timeout : float, optional
        Seconds that a server may take for one request; ten times as many for all of a dataset.
    tables : mapping of str to Path
        Files that replace the packed tables: ``standard_names``, ``area_types``, ``regions``.
    """

    cf_version: str | None = None
    data: bool = False
    references: bool = False
    allow: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    timeout: float | None = None
    tables: Mapping[str, Path] = field(default_factory=dict)

    def chooses(self, code: str) -> bool:
        """Whether a rule is to be run; of several beginnings the longest counts.

        Examples
        --------
        >>> Options(select=("TIM",), ignore=("TIM013",)).chooses("TIM013")
        False
        """
        if code.startswith("INT"):
            return True
        chosen = max((len(s) for s in self.select if code.startswith(s)), default=-1 if self.select else 0)
        refused = max((len(s) for s in self.ignore if code.startswith(s)), default=-1)
        return chosen > refused or (chosen == refused == 0)
