"""Reports on building an accumulation, or on what a build would do."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.build_plan import Plan
from cfagg.accumulation.group import group_path
from cfagg.display.escape import printable
from cfagg.display.sizes import count_text, size_text
from cfagg.formats.zarr import stamps

__all__ = ["Report", "report_of", "report_of_extension"]


@dataclass(frozen=True)
class ArrayReport:
    """One array of the group.

    Parameters
    ----------
    name, role : str
        Its name, and a description of its contents.
    shape, chunks : tuple of int
        Its shape and chunks.
    bytes : int
        Bytes of its elements, before compression.
    stored : int, optional
        Bytes of its chunks on disk; None if nothing was written.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    bytes: int
    stored: int | None = None


@dataclass(frozen=True)
class Report:
    """A report on a build.

    Parameters
    ----------
    store, variable, group : str
        The store, the array, and the path of the group in it.
    action : str
        ``"built"``, ``"appended"``, ``"rebuilt"``, ``"adopted"``, ``"up to date"`` or ``"dry run"``.
    arrays : tuple of ArrayReport
        The arrays of the group.
    source_bytes, source_stored : int
        Bytes of the array, uncompressed and as stored; `None` if the stored size was not determined.
    scratch : int
        Bytes of temporary disk space needed next to the store while building, in addition to the group.
    chunks : int
        Chunks of the array that are read.
    resumed : int
        Number of these chunks that an earlier, unfinished run had read.
    missing, nonfinite : int
        Elements that are left out, and the infinite ones among them.
    notes : tuple of str
        Remarks for users.
    """

    store: str
    variable: str
    group: str
    action: str
    arrays: tuple[ArrayReport, ...]
    source_bytes: int
    source_stored: int | None
    scratch: int
    chunks: int
    resumed: int = 0
    missing: int = 0
    nonfinite: int = 0
    notes: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all arrays, before compression."""
        return sum(a.bytes for a in self.arrays)

    @property
    def stored(self) -> int | None:
        """Bytes of all arrays on disk; `None` if nothing was written."""
        sizes = [a.stored for a in self.arrays]
        return None if None in sizes else sum(s for s in sizes if s is not None)

    @property
    def share(self) -> float:
        """Bytes of the arrays in proportion to those of the data, both before compression."""
        return self.bytes / self.source_bytes if self.source_bytes else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        arrays = [{**a.__dict__, "shape": list(a.shape), "chunks": list(a.chunks)} for a in self.arrays]
        own = {"bytes": self.bytes, "stored": self.stored, "share": self.share}
        return {**self.__dict__, "arrays": arrays, "notes": list(self.notes), **own}

    def __str__(self) -> str:
        from cfagg.display.text import columns

        head = f"{self.store}: {self.group} {self.action}"
        if self.action == "dry run":
            head = f"{self.store}: {self.group} would hold {count_text(len(self.arrays), 'array')}"
        whole = size_text(self.source_bytes)
        size = f"{size_text(self.bytes)}, {100 * self.share:.1f} % of {self.variable}'s {whole}"
        if self.stored is not None:
            size += f"; {size_text(self.stored)} on disk beside {size_text(self.source_stored or 0)}"
        lines = [f"{head}: {size}"] if self.arrays else [head]
        rows = [
            (
                a.name,
                "x".join(map(str, a.shape)),
                "x".join(map(str, a.chunks)),
                size_text(a.bytes),
                "" if a.stored is None else size_text(a.stored),
                a.role,
            )
            for a in self.arrays
        ]
        if self.action != "dry run":
            # The many arrays other than sums are summarised in one row.
            of_sums = [" along " in a.role for a in self.arrays]
            others = [a for a, is_sum in zip(self.arrays, of_sums, strict=True) if not is_sum]
            rows = [row for row, is_sum in zip(rows, of_sums, strict=True) if is_sum]
            if others:
                stored = "" if self.stored is None else size_text(sum(a.stored or 0 for a in others))
                roles = "statistics of chunks, positions and checksums"
                rows.append((f"{len(others)} more", "", "", size_text(sum(a.bytes for a in others)), stored, roles))
        if rows:
            rows.insert(0, ("array", "shape", "chunks", "bytes", "" if self.stored is None else "stored", "holds"))
            lines += columns(rows, "  ")
        verb = "to read" if self.action == "dry run" else "read"
        resumed = f" ({self.resumed:,} of them before)" if self.resumed else ""
        if self.chunks or self.arrays:
            chunks = f"{self.chunks:,} chunk{'s'[: self.chunks != 1]}"
            lines.append(f"  {chunks} {verb}{resumed}, {size_text(self.scratch)} of scratch space")
        if self.missing:
            lines.append(f"  {self.missing:,} missing values left out, {self.nonfinite:,} of them infinite")
        return "\n".join(map(printable, [*lines, *(f"  note: {n}" for n in self.notes)]))

    def __repr__(self) -> str:
        notes = f", {len(self.notes)} note{'s'[: len(self.notes) > 1]}" if self.notes else ""
        return f"<Report of {str(self).partition(chr(10))[0]}; {count_text(len(self.arrays), 'array')}{notes}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        stored = (
            None if self.stored is None else f"{size_text(self.stored)} beside {size_text(self.source_stored or 0)}"
        )
        facts = (
            ("store", self.store),
            ("variable", self.variable),
            ("group", f"{self.group} {self.action}"),
            ("sums", f"{size_text(self.bytes)}, {100 * self.share:.1f} % of the data's {size_text(self.source_bytes)}"),
            ("stored", stored),
            ("missing", f"{self.missing:,} values, {self.nonfinite:,} of them infinite" if self.missing else None),
        )
        arrays = [f"{a.name}: {a.role}, {size_text(a.bytes)}" for a in self.arrays]
        return facts_html("Accumulation", facts, [("arrays", arrays), ("notes", self.notes)])


def report_of(
    plan: Plan,
    action: str,
    *,
    counts: bool = False,
    missing: int = 0,
    nonfinite: int = 0,
    resumed: int = 0,
    seen: npt.NDArray[np.int64] | None = None,
) -> Report:
    """Return the report of a plan, with sizes on disk if it was carried out; `seen` are then the array's stamps."""
    array, recipe = plan.array, plan.recipe
    notes, written = list(plan.notes), seen is not None
    if not written and plan.action.sums and plan.weights is not None:
        notes.append("counts are stored as well if values are missing")
    arrays = tuple(
        ArrayReport(
            s.name,
            s.role,
            s.shape,
            s.chunks,
            s.nbytes,
            _stored(plan.folder / s.name) if written or not plan.action.sums else None,
        )
        for s in plan.layout.arrays(counts=counts)
    )
    sizes = (stamps(array) if seen is None else seen)[:, 0]
    itemsizes = [(f, np.dtype(f.dtype).itemsize) for f in recipe.files if f.kind != "excluded"]
    scratch = sum(int(recipe.window.sizes(f.axes).sum()) * size for f, size in itemsizes)
    return Report(
        array.store,
        array.path,
        group_path(array.path),
        action,
        arrays,
        math.prod(array.shape) * array.dtype.itemsize,
        int(sizes[sizes > 0].sum()),
        scratch + recipe.window.size * recipe.record_type.itemsize if plan.action.sums else 0,
        recipe.window.size if plan.action.sums else 0,
        resumed,
        missing,
        nonfinite,
        tuple(notes),
    )


def report_of_extension(plan: Plan, missing: int, nonfinite: int) -> Report:
    """Return the report of a plan that extended a group in place, without counting stored bytes again."""
    array, counts = plan.array, bool(missing or plan.layout.outliers)
    specs = plan.layout.arrays(counts=counts)
    return Report(
        array.store,
        array.path,
        group_path(array.path),
        plan.action.word,
        tuple(ArrayReport(s.name, s.role, s.shape, s.chunks, s.nbytes) for s in specs),
        math.prod(array.shape) * array.dtype.itemsize,
        None,
        0,
        plan.recipe.window.size,
        0,
        missing,
        nonfinite,
        plan.notes,
    )


def _stored(folder: Path) -> int:
    """Return the bytes of the chunks of an array."""
    total = 0
    for path, _, files in os.walk(folder):
        total += sum(
            os.stat(os.path.join(path, f)).st_size  # noqa: PTH116, PTH118
            for f in files
            if f not in ("zarr.json", ".zarray", ".zattrs")
        )
    return total
