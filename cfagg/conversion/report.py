"""The result of a conversion, and its losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cfagg.runtime.reports import WrittenReport

__all__ = ["IcechunkReport", "NetcdfReport", "Report"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(WrittenReport):
    """The result of a conversion.

    Parameters
    ----------
    target : str
        The store.
    variables : tuple of str
        Paths of its arrays.
    bytes : int
        Size in bytes of all values, before compression.
    stored : int
        Size in bytes of all chunks, as stored.
    chunks : int
        Number of stored chunks, which are those with values other than the fill value.
    resumed : int
        Number of these that an earlier, unfinished run had written.
    verified : bool
        Whether all were read back and compared.
    notes : tuple of str
        Information that users of the store should know.
    losses : tuple of Loss
        What the source has and the store does not, each with ``variable``, ``partition``, ``what``, ``found``,
        ``why``.
    dialects : tuple of str
        Conventions of the aggregations that were read, such as ``"CF-1.13"``.
    """

    title: ClassVar[str] = "Conversion to Zarr"
    what: ClassVar[str] = "store"

    bytes: int
    stored: int
    chunks: int
    resumed: int = 0
    verified: bool = False
    dialects: tuple[str, ...] = ()

    def __str__(self) -> str:
        from cfagg.display.sizes import count_text, size_text

        return (
            f"{self.target}: {count_text(len(self.variables), 'variable')}, {size_text(self.bytes)} in "
            f"{count_text(self.chunks, 'chunk')} ({size_text(self.stored)} stored)"
            f"{', from ' if self.dialects else ''}{' and '.join(self.dialects)}"
        )

    @property
    def facts(self) -> tuple[tuple[str, object], ...]:
        """The facts shown in a notebook, by name."""
        from cfagg.display.sizes import count_text, size_text

        return (
            (self.what, self.target),
            ("read from", " and ".join(self.dialects) or None),
            ("values", size_text(self.bytes)),
            ("stored", f"{size_text(self.stored)} in {count_text(self.chunks, 'chunk')}"),
            ("resumed", f"{count_text(self.resumed, 'chunk')} of an earlier run" if self.resumed else None),
            ("verified", "read back and compared" if self.verified else None),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class NetcdfReport(Report):
    """The result of a conversion to netCDF-4: `target` is a file, and `stored` its size."""

    title: ClassVar[str] = "Conversion to netCDF-4"
    what: ClassVar[str] = "file"


@dataclass(frozen=True, kw_only=True, repr=False)
class IcechunkReport(Report):
    """The result of a conversion to Icechunk: `target` is the directory of a repository."""

    title: ClassVar[str] = "Conversion to Icechunk"
    what: ClassVar[str] = "repository"
