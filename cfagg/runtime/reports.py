"""Reports of writing jobs, the same for every target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from cfagg.errors.losses import loss_lines
from cfagg.findings.losses import Loss

__all__ = ["WrittenReport"]


@dataclass(frozen=True, kw_only=True, repr=False)
class WrittenReport(ABC):
    """What was written, and what was lost; ``str`` gives one line."""

    #: Headline in a notebook.
    title: ClassVar[str]

    target: str
    variables: tuple[str, ...]
    #: What the source has but the target does not.
    losses: tuple[Loss, ...] = ()
    #: Notes on the target for the user.
    notes: tuple[str, ...] = ()

    @property
    @abstractmethod
    def facts(self) -> Sequence[tuple[str, object]]:
        """The contents of the notebook display, by name."""

    def as_dict(self) -> dict[str, Any]:
        """Return the whole report as plain data for JSON."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}
        return plain | {"losses": [loss._asdict() for loss in self.losses]}

    def __repr__(self) -> str:
        lost, said = len(self.losses), len(self.notes)
        losses = f", {lost:,} {'loss' if lost == 1 else 'losses'}" if lost else ""
        notes = f", {said:,} note{'s'[: said > 1]}" if said else ""
        return f"<Report of {self}{losses}{notes}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        lists = (("variables", self.variables), ("losses", loss_lines(self.losses)), ("notes", self.notes))
        return facts_html(self.title, self.facts, lists)
