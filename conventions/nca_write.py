"""NCA 0.1: from an aggregation to the attributes of a netCDF variable, in canonical JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from cfagg.conventions import encoded
from cfagg.conventions.encoded import (
    Encoded,
    Lack,
    Names,
    of_byte_orders,
    of_codes,
    of_dimensions,
    of_layouts,
    of_numbers,
    of_versions,
)
from cfagg.conventions.findings import Findings
from cfagg.conventions.fragment_arrays import packing, whole_packing
from cfagg.conventions.json_write import Style, as_json, check_text, members, more_dimensions, records
from cfagg.conventions.nca_layouts import is_netcdf
from cfagg.model import Aggregation, Layout

__all__ = ["DIALECT", "encode", "lacks", "notes", "write"]

DIALECT = "NCA-0.1"


class _Nca(Style):
    """The keys of NCA 0.1."""

    dialect, data, end = "NCA 0.1", "data", 0

    def head(self, layout: Layout, aggregation: Aggregation) -> str:
        """Return the text between the location and the part."""
        directions = aggregation.directions
        master = dict(zip(aggregation.dims, directions, strict=True)) if isinstance(directions, tuple) else {}
        spoken = {}
        for dim, flip in zip(layout.dims, layout.flipped, strict=True):
            if dim not in master:
                spoken[dim] = True  # the specification requires a direction, which has no effect
            elif flip:
                spoken[dim] = not master[dim]
        return members(
            {
                "dimensions": list(layout.dims) if layout.dims != aggregation.dims else None,
                "format": layout.format,
                "directions": spoken or None,
                "units": layout.units,
                "calendar": layout.calendar,
            }
        )

    def part(self, text: str) -> str:
        """Return the canonical text itself."""
        return text

    def around(self, layout: Layout) -> tuple[str, str, str]:
        """Return the text before the shape, between file and variable, and after the address."""
        packing = {"lbpack": layout.packing, "scale_factor": layout.scale_factor, "add_offset": layout.add_offset}
        return "", members({"dtype": layout.dtype}), members(packing)

    def variable(self, address: str) -> str:
        """Return the name of the variable."""
        return f'"ncvar": {as_json(address)}'


def write(aggregation: Aggregation) -> dict[str, str]:
    r"""Return the attributes of the NCA variable that describes an aggregation.

    The JSON is canonical: strict, keys in the order of the convention's text, partitions in C order over the matrix,
    and no key whose value is the default.  Equal aggregations result in equal bytes.

    Parameters
    ----------
    aggregation : Aggregation
        The aggregation to describe.

    Returns
    -------
    dict
        ``nca_dimensions`` and ``nca_array``.  Units, calendar and the rest are ordinary attributes of the variable.

    Raises
    ------
    ConventionError
        The aggregation has properties that NCA 0.1 cannot express; ``problems`` lists all of them.

    Notes
    -----
    NCA 0.1, "A complete description of NCA attributes describing the aggregated data".

    Examples
    --------
    >>> import numpy as np
    >>> from cfagg.model import Aggregation, Grid, Layout, Partitions
    >>> one = Partitions.build(1, file=0, address=0, files=["a.nc"], addresses=["t"], layouts=[Layout(("x",))])
    >>> written = write(Aggregation("t", ("x",), (5,), np.dtype("f4"), Grid([[0, 5]]), one))
    >>> written["nca_dimensions"]
    'x'
    >>> print(written["nca_array"].replace(' "Partitions"', '\n "Partitions"'))
    {"directions": {"x": true}, "pdimensions": [], "pshape": [],
     "Partitions": [{"index": [], "location": [[0, 5]], "data": {"shape": [5], "file": "a.nc", "ncvar": "t"}}]}
    """
    findings = Findings(f"variable {aggregation.name!r}")
    check_text(aggregation, findings, "nca_dimensions")
    _check(aggregation, findings)
    findings.check("NCA 0.1 cannot describe this aggregation")
    dims, matrix = aggregation.dims, aggregation.grid.matrix_shape
    split = [d for d, n in enumerate(matrix) if n != 1]
    directions = aggregation.directions
    head = {
        "directions": directions if isinstance(directions, bool) else dict(zip(dims, directions, strict=True)),
        "pdimensions": [dims[d] for d in split],
        "pshape": [matrix[d] for d in split],
    }
    return {
        "nca_dimensions": " ".join(dims),
        "nca_array": f'{as_json(head)[:-1]}, "Partitions": [{", ".join(records(aggregation, split, _Nca()))}]}}',
    }


def encode(aggregation: Aggregation, names: Names | None = None) -> Encoded:
    """Return the NCA variable and its attributes, without inexpressible information that changes no value."""
    del names
    encoded.check(aggregation, lacks(aggregation), DIALECT)
    attributes = encoded.own_attributes(aggregation) | write(aggregation)
    return Encoded(DIALECT, aggregation.dtype, attributes, more_dimensions(aggregation))


def lacks(aggregation: Aggregation) -> Iterator[Lack]:
    """Yield everything that NCA 0.1 cannot express."""
    partitions = aggregation.partitions
    netcdf = np.array([is_netcdf(layout.format) for layout in partitions.layouts] or [True])[partitions.layout]
    yield from json_lacks(aggregation)
    yield from whole_packing(aggregation, before=False)

    def infinite(layout: Layout) -> str | None:
        given = {"scale_factor": layout.scale_factor, "add_offset": layout.add_offset}
        bad = [f"{k} {v}" for k, v in given.items() if v is not None and not math.isfinite(v)]
        return ", ".join(bad) or None

    held = encoded.stored(aggregation)
    yield from of_layouts(aggregation, held & netcdf, "packing", _PACKED, packing)
    yield from of_layouts(aggregation, held & ~netcdf, "packing", "JSON has no such number", infinite)
    if aggregation.dialect != DIALECT:  # in which the number is the name itself
        yield from of_numbers(aggregation)


_PACKED = "a netCDF variable has its own scale_factor and add_offset"


def json_lacks(aggregation: Aggregation) -> Iterator[Lack]:
    """Yield everything that none of the JSON conventions can express."""
    partitions = aggregation.partitions
    fragment = "each partition is a sub-array"
    yield from of_codes(~partitions.present, "missing fragment", ["no fragment"], None, fragment)
    values = map(str, partitions.values.tolist())
    yield from of_codes(partitions.value >= 0, "unique value", values, partitions.value, fragment)
    yield from of_layouts(
        aggregation,
        encoded.stored(aggregation),
        "missing value",
        "the file of the sub-array gives it",
        lambda layout: None if layout.fill is None else str(layout.fill),
    )
    yield from of_byte_orders(aggregation)
    yield from of_dimensions(aggregation)
    yield from of_versions(partitions, fragment)
    for name in aggregation.terms:
        yield Lack("term of its own", (name,), "there are no terms", values=False)


def notes(aggregation: Aggregation) -> list[str]:
    """Return no notes, since everything that NCA 0.1 can express is written."""
    del aggregation
    return []


def _check(aggregation: Aggregation, findings: Findings) -> None:
    """Note everything that NCA 0.1 cannot express."""
    partitions = aggregation.partitions
    if not partitions.present.all():
        i = int(partitions.present.argmin())
        findings.problem(f"Partitions[{i}]", "a partition is declared missing, which NCA 0.1 cannot express")
    if (partitions.value >= 0).any():
        i = int((partitions.value >= 0).argmax())
        findings.problem(f"Partitions[{i}]", "a partition is a unique value, which NCA 0.1 cannot express")
    for k, layout in enumerate(partitions.layouts):
        where = f"layouts[{k}]"
        if layout.fill is not None:
            findings.problem(
                where, "NCA 0.1 has no key for a missing value; declare it in the file that holds the sub-array"
            )
        if is_netcdf(layout.format) and (layout.scale_factor is not None or layout.add_offset is not None):
            findings.problem(where, "scale_factor and add_offset of netCDF sub-arrays belong in the netCDF file")
        for key in ("scale_factor", "add_offset"):
            value = getattr(layout, key)
            if value is not None and not math.isfinite(value):
                findings.problem(where, f"{key} {value} is not a number that JSON can represent")
