"""What a conversion did, and what it lost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Loss", "Report"]


@dataclass(frozen=True)
class Loss:
    """Something of the source that the target does not hold.

    Parameters
    ----------
    where : str
        Variable, and partition where there is one.
    what : str
        What is lost.
    found : str
        What the source has there.
    why : str
        The reason.
    """

    where: str
    what: str
    found: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what} is lost: {self.why}"


@dataclass(frozen=True)
class Report:
    """What a conversion did.

    Parameters
    ----------
    target : str
        The store.
    variables : tuple of str
        Paths of its arrays.
    bytes : int
        Bytes of all values, before compression.
    stored : int
        Bytes of all chunks, as stored.
    chunks : int
        Number of chunks.
    resumed : int
        How many of them an earlier, unfinished run had written.
    verified : bool
        Whether all were read back and compared.
    notes : tuple of str
        What a user should know about the store.
    losses : tuple of Loss
        What the source has and the store does not, each with ``where``, ``what``, ``found`` and ``why``.
    dialects : tuple of str
        Conventions of the aggregations that were read, such as ``"CF-1.13"``.
    """

    target: str
    variables: tuple[str, ...]
    bytes: int
    stored: int
    chunks: int
    resumed: int = 0
    verified: bool = False
    notes: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
    dialects: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        from cfagg.display.sizes import count_text, size_text

        return (
            f"{self.target}: {count_text(len(self.variables), 'variable')}, {size_text(self.bytes)} in "
            f"{count_text(self.chunks, 'chunk')} ({size_text(self.stored)} stored)"
            f"{', from ' if self.dialects else ''}{' and '.join(self.dialects)}"
        )

    def __repr__(self) -> str:
        lost, said = len(self.losses), len(self.notes)
        losses = f", {lost:,} {'loss' if lost == 1 else 'losses'}" if lost else ""
        notes = f", {said:,} note{'s'[: said > 1]}" if said else ""
        return f"<Report of {self}{losses}{notes}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html
        from cfagg.display.sizes import count_text, size_text

        facts = (
            ("store", self.target),
            ("read from", " and ".join(self.dialects) or None),
            ("values", size_text(self.bytes)),
            ("stored", f"{size_text(self.stored)} in {count_text(self.chunks, 'chunk')}"),
            ("resumed", f"{count_text(self.resumed, 'chunk')} of an earlier run" if self.resumed else None),
            ("verified", "read back and compared" if self.verified else None),
        )
        lists = (("variables", self.variables), ("losses", self.losses), ("notes", self.notes))
        return facts_html("Conversion to Zarr", facts, lists)
