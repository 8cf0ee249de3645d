"""The result of writing an aggregation file, and its losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cfagg.runtime.reports import WrittenReport

__all__ = ["Report"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(WrittenReport):
    """The result of writing an aggregation file.

    Parameters
    ----------
    target : str
        The file.
    dialect : str
        The convention of the file.
    variables : tuple of str
        Paths of the aggregation variables.
    partitions : int
        Number of partitions of these.
    fragments : int
        Number of files written beside it, with values that are in no other file.
    losses : tuple of Loss
        What the source has and the file does not, each with ``variable``, ``partition``, ``what``, ``found``, ``why``.
    notes : tuple of str
        Information that users of the file should know.
    """

    title: ClassVar[str] = "Aggregation file"

    dialect: str
    partitions: int
    fragments: int = 0

    def __str__(self) -> str:
        from cfagg.display.sizes import count_text

        counts = f"{count_text(len(self.variables), 'aggregation')} of {count_text(self.partitions, 'partition')}"
        if not self.variables:
            counts = "all values in the file itself,"
        more = f", {count_text(self.fragments, 'fragment')} written" if self.fragments else ""
        return f"{self.target}: {counts} in {self.dialect}{more}"

    @property
    def facts(self) -> tuple[tuple[str, object], ...]:
        """The facts shown in a notebook, by name."""
        return (
            ("file", self.target),
            ("convention", self.dialect),
            ("partitions", f"{self.partitions:,}"),
            ("fragments written", f"{self.fragments:,}" if self.fragments else None),
        )
