"""The group form "CFA-0.5": partitions as variables of a group, as written by S3-netcdf-python.

``cfa_group`` names the group.  In it ``location`` (with exclusive ends), ``ncvar``, ``file``, ``format`` and ``shape``
span the partition matrix, whose dimensions ``pmdimensions`` names; a partition without ``ncvar`` was never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions import nca
from cfagg.conventions.closure import close, matrix_size
from cfagg.conventions.findings import Findings, shorten
from cfagg.conventions.instructions import Column
from cfagg.conventions.marks import ROLES
from cfagg.conventions.scope import Described, Scope
from cfagg.conventions.versions import CFA_0_4
from cfagg.errors import CfaggError, ConventionError
from cfagg.model import Aggregation, Layout, Partitions

__all__ = ["DIALECT", "parse"]

DIALECT = "CFA-0.5"

Int64 = npt.NDArray[np.int64]


def parse(
    name: str, attributes: Mapping[str, Any], dtype: npt.DTypeLike, scope: Scope, *, source: str = ""
) -> Aggregation:
    """Return the aggregation whose partitions are in the group that ``cfa_group`` names."""
    subject = f"{source}: variable {name!r}" if source else f"variable {name!r}"
    others = {k: v for k, v in attributes.items() if k != "cf_role" or str(v) not in ROLES}
    group = nca.text_of(others.pop("cfa_group"), "cfa_group", subject)
    dims, shape = nca.dimensions(others.pop("cfa_dimensions", ""), scope.sizes, subject, CFA_0_4)
    findings = Findings(subject)
    found = _Group(group, scope, subject)
    location = found.read("location", "iu")
    if location.shape[-2:] != (len(dims), 2):
        raise found.error(
            "location", f"has shape {location.shape}, expected a start and a stop for each of {len(dims)} dimensions"
        )
    matrix = location.shape[:-2]
    if len(matrix) != len(dims):
        raise found.error("location", f"spans a partition matrix of shape {matrix}, of an array {' '.join(dims)}")
    _check_matrix(found, dims, matrix)
    count = matrix_size(matrix)
    names = found.texts("ncvar", matrix)
    present = np.array([bool(n) for n in names], np.bool_)
    index = np.stack(np.unravel_index(np.arange(count), matrix), axis=1) if dims else np.zeros((count, 0), np.int64)
    ranges = _ranges(location.filled(-1).astype(np.int64).reshape(count, len(dims), 2), index, present, matrix, shape)
    closed = close(dims, shape, dims, matrix, index, ranges, np.arange(count), findings)
    if closed is not None and found.has("shape"):
        sizes = found.read("shape", "iu")
        if sizes.shape != (*matrix, len(dims)):
            raise found.error("shape", f"has shape {sizes.shape}, expected {(*matrix, len(dims))}")
        sizes = sizes.reshape(count, len(dims))
        wrong = present & (sizes.filled(-1) != ranges[:, :, 1] - ranges[:, :, 0]).any(axis=1)
        for i in np.flatnonzero(wrong)[:20].tolist():
            findings.problem(f"Partitions[{i}].shape", f"{sizes[i].tolist()} does not fit the location")
    findings.check(f"the group {group!r} does not describe an aggregation")
    if closed is None:  # a problem has been noted in any case
        raise ConventionError(f"{subject}: the group {group!r} does not describe a partition matrix")
    base = found.text("base") if found.has("base") else ""
    files = Column.of(found.texts("file", matrix), nca.based(base, CFA_0_4, findings))
    addresses = Column.of(names)
    formats = Column.of(found.texts("format", matrix) if found.has("format") else [""] * count)
    layouts = [Layout(dims, format=f) for f in formats.table] + [Layout(dims)]
    units, calendar = (others.pop(k) if isinstance(others.get(k), str) else None for k in ("units", "calendar"))
    findings.warn()
    return Aggregation(
        name=name,
        dims=dims,
        shape=shape,
        dtype=np.dtype(dtype),
        grid=closed[0],
        partitions=Partitions.build(
            count,
            file=np.where(present, files.codes, -1),
            address=addresses.codes,
            layout=np.where(formats.codes < 0, len(layouts) - 1, formats.codes),
            present=present,
            files=files.table,
            addresses=addresses.table,
            layouts=layouts,
        ),
        units=units,
        calendar=calendar,
        attributes=others,
        source=source,
        dialect=DIALECT,
    )


class _Group:
    """The variables of the group."""

    def __init__(self, group: str, scope: Scope, subject: str) -> None:
        self.group, self.scope, self.subject = group.rstrip("/"), scope, subject

    def error(self, name: str, message: str) -> ConventionError:
        """Return an error about a variable of the group."""
        return ConventionError(f"{self.subject}: {self.group}/{name} {message}")

    def has(self, name: str) -> bool:
        """Return whether the group has a variable."""
        return self.scope.find(f"{self.group}/{name}") is not None

    def read(self, name: str, kinds: str) -> np.ma.MaskedArray[Any, Any]:
        """Return the values of a variable whose type has one of the given kinds."""
        found: Described | None = self.scope.find(f"{self.group}/{name}")
        if found is None:
            raise self.error(name, "is missing from the file; it would describe the partitions")
        if found.dtype.kind not in kinds:
            expected = "text" if kinds == "O" else "integers"
            raise self.error(name, f"holds {found.dtype.name}, expected {expected}")
        try:
            return np.ma.asanyarray(self.scope.values(f"{self.group}/{name}"))
        except CfaggError as error:
            raise type(error)(f"{self.subject}: {error.message}", error.problems) from error

    def text(self, name: str) -> str:
        """Return the text of a scalar variable."""
        values = self.read(name, "O")
        if values.size != 1:
            raise self.error(name, f"has {values.size} values, expected one")
        return str(values.filled("").ravel()[0])

    def texts(self, name: str, matrix: tuple[int, ...]) -> list[str]:
        """Return the texts of all partitions, empty if there is none."""
        values = self.read(name, "O")
        if values.shape != matrix:
            raise self.error(name, f"has shape {values.shape}, but the partition matrix has {matrix}")
        texts: list[str] = values.filled("").ravel().tolist()
        return texts


def _check_matrix(found: _Group, dims: tuple[str, ...], matrix: tuple[int, ...]) -> None:
    """Raise an error for variables that contradict the partition matrix."""
    if found.has("pmdimensions"):
        said = found.text("pmdimensions").replace(",", " ").split()
        if tuple(said) != dims:
            raise found.error("pmdimensions", f"is {shorten(said)}, expected {shorten(list(dims))}")
    if found.has("pmshape"):
        sizes = found.read("pmshape", "iu").ravel().tolist()
        if tuple(sizes) != matrix:
            raise found.error("pmshape", f"is {shorten(sizes)}, but location spans {shorten(list(matrix))}")


def _ranges(
    location: Int64, index: Int64, present: npt.NDArray[np.bool_], matrix: tuple[int, ...], shape: tuple[int, ...]
) -> Int64:
    """Return the ranges of all partitions; one that was never written has those of its neighbours."""
    ranges = location.copy()
    for d, (cells, size) in enumerate(zip(matrix, shape, strict=True)):
        known = np.full((cells, 2), -1, np.int64)
        rows = np.flatnonzero(present)[::-1]
        known[index[rows, d]] = location[rows, d]
        starts, stops = known[:, 0].copy(), known[:, 1].copy()
        for k in np.flatnonzero(starts < 0).tolist():
            starts[k] = stops[k - 1] if k else 0
            stops[k] = known[k + 1, 0] if k + 1 < cells else size
        ranges[~present, d] = np.stack([starts, stops], axis=1)[index[~present, d]]
    return ranges
