"""What the writing of an aggregation file did, and what it lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cfagg.conventions.encoded import Loss

__all__ = ["Loss", "Report"]


@dataclass(frozen=True)
class Report:
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

    target: str
    dialect: str
    variables: tuple[str, ...]
    partitions: int
    fragments: int = 0
    losses: tuple[Loss, ...] = ()
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain data for JSON."""
        return {
            "target": self.target,
            "dialect": self.dialect,
            "variables": list(self.variables),
            "partitions": self.partitions,
            "fragments": self.fragments,
            "losses": [loss._asdict() for loss in self.losses],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        from cfagg.display.sizes import count_text

        counts = f"{count_text(len(self.variables), 'aggregation')} of {count_text(self.partitions, 'partition')}"
        more = f", {count_text(self.fragments, 'fragment')} written" if self.fragments else ""
        return f"{self.target}: {counts} in {self.dialect}{more}"

    def __repr__(self) -> str:
        lost, said = len(self.losses), len(self.notes)
        losses = f", {lost:,} {'loss' if lost == 1 else 'losses'}" if lost else ""
        notes = f", {said:,} note{'s'[: said > 1]}" if said else ""
        return f"<Report of {self}{losses}{notes}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        facts = (
            ("file", self.target),
            ("convention", self.dialect),
            ("partitions", f"{self.partitions:,}"),
            ("fragments written", f"{self.fragments:,}" if self.fragments else None),
        )
        lists = (("variables", self.variables), ("losses", self.losses), ("notes", self.notes))
        return facts_html("Aggregation file", facts, lists)
