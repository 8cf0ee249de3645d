"""What the writing of an aggregation file did, and what it lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cfagg.runtime.reports import WrittenReport

__all__ = ["Report"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(WrittenReport):
    """What was written.

    Parameters
    ----------
    target : str
        The file.
    dialect : str
        Its convention.
    variables : tuple of str
        Paths of the aggregation variables.
    partitions : int
        How many they consist of.
    fragments : int
        How many files were written beside it, with values that stand in no other.
    losses : tuple of Loss
        What the source has and the file does not, each with ``variable``, ``partition``, ``what``, ``found``, ``why``.
    notes : tuple of str
        What a user should know about the file.
    """

    title: ClassVar[str] = "Aggregation file"

    dialect: str
    partitions: int
    fragments: int = 0

    def __str__(self) -> str:
        from cfagg.display.sizes import count_text

        counts = f"{count_text(len(self.variables), 'aggregation')} of {count_text(self.partitions, 'partition')}"
        more = f", {count_text(self.fragments, 'fragment')} written" if self.fragments else ""
        return f"{self.target}: {counts} in {self.dialect}{more}"

    @property
    def facts(self) -> tuple[tuple[str, object], ...]:
        """What a notebook shows, by name."""
        return (
            ("file", self.target),
            ("convention", self.dialect),
            ("partitions", f"{self.partitions:,}"),
            ("fragments written", f"{self.fragments:,}" if self.fragments else None),
        )
