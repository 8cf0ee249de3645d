"""The result of writing a Zarr store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cfagg.runtime.reports import WrittenReport

__all__ = ["StoreReport"]


@dataclass(frozen=True, kw_only=True, repr=False)
class StoreReport(WrittenReport):
    """The result of writing a Zarr store.

    Parameters
    ----------
    target : str
        The store.
    variables : tuple of str
        Paths of its arrays.
    chunks : int
        Number of stored chunks, or shards; those with only fill values may not be stored.
    copied : int
        Number of these copied byte for byte from a source.
    referenced : int
        Number of these that are referred to at their original location (Icechunk).
    stored : int
        Size in bytes of all of them.
    losses, notes : tuple
        What is missing from the store, and information that users should know.
    """

    title: ClassVar[str] = "Zarr store"

    chunks: int
    copied: int = 0
    referenced: int = 0
    stored: int = 0

    def __str__(self) -> str:
        from cfagg.display.sizes import count_text, size_text

        copied = f", {self.copied:,} of them copied as they were" if self.copied else ""
        copied += f", {self.referenced:,} of them referred to" if self.referenced else ""
        return (
            f"{self.target}: {count_text(len(self.variables), 'variable')}, {count_text(self.chunks, 'chunk')} "
            f"({size_text(self.stored)}){copied}"
        )

    @property
    def facts(self) -> tuple[tuple[str, object], ...]:
        """The facts shown in a notebook, by name."""
        from cfagg.display.sizes import count_text, size_text

        return (
            ("store", self.target),
            ("stored", f"{size_text(self.stored)} in {count_text(self.chunks, 'chunk')}"),
            ("copied", f"{count_text(self.copied, 'chunk')} as they were" if self.copied else None),
            ("referred to", count_text(self.referenced, "chunk") if self.referenced else None),
        )
