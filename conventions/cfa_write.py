"""CFA 0.4: from an aggregation to the attributes of a netCDF variable, in canonical JSON.

Source: CFA 0.4 (``cfa_attributes``).  Canonical: strict JSON, keys in the order of the text, partitions in C order, no
key whose value is the default; ranges of ``location`` and ``part`` are inclusive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from cfagg.conventions import encoded
from cfagg.conventions.encoded import Encoded, Lack, Names, of_layouts
from cfagg.conventions.findings import Findings
from cfagg.conventions.fragment_arrays import directions, packing, whole_packing
from cfagg.conventions.json_write import Style, as_json, check_text, members, more_dimensions, records
from cfagg.conventions.nca_write import json_lacks
from cfagg.model import Aggregation, Layout

__all__ = ["DIALECT", "lacks", "notes", "write"]

DIALECT = "CFA-0.4"

_BRACKETS = re.compile(r"([\[(])([^\[\]()]*)[\])]")
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:").match


class _Cfa(Style):
    """The keys of CFA 0.4."""

    dialect, data, end, number = "CFA 0.4", "subarray", -1, "varid"

    def head(self, layout: Layout, aggregation: Aggregation) -> str:
        """Return the text between the location and the part."""
        reverse = [d for d, flip in zip(layout.dims, layout.flipped, strict=True) if flip]
        return members(
            {
                "pdimensions": list(layout.dims) if layout.dims != aggregation.dims else None,
                "reverse": reverse or None,
                "punits": layout.units,
                "pcalendar": layout.calendar,
            }
        )

    def part(self, text: str) -> str:
        """Return a part with inclusive ranges in square brackets, and lists in round ones."""
        return f"[{_BRACKETS.sub(_bracket, text[1:-1])}]"

    def around(self, layout: Layout) -> tuple[str, str, str]:
        """Return the text before the shape, between file and variable, and after the address."""
        form = members({"format": layout.format})
        return f"{form[2:]}, " if form else "", members({"dtype": layout.dtype}), ""

    def variable(self, address: str) -> str:
        """Return the name of the variable."""
        return f'"ncvar": {as_json(address)}'


def _bracket(found: re.Match[str]) -> str:
    """Return one dimension of a canonical part as CFA 0.4 writes it."""
    if found[1] == "[":
        return f"({found[2]})"
    start, stop, step = map(int, found[2].split(","))
    return f"[{start}, {range(start, stop, step)[-1]}, {step}]"


def lacks(aggregation: Aggregation) -> Iterator[Lack]:
    """Yield everything that CFA 0.4 cannot express."""
    yield from json_lacks(aggregation)
    yield from directions(aggregation)
    yield from whole_packing(aggregation, before=False)
    held = encoded.stored(aggregation)
    yield from of_layouts(aggregation, held, "packing", "the file of the sub-array gives it", packing)
    own = encoded.own_attributes(aggregation)
    if "cf_role" in own:
        yield Lack("cf_role", (str(own["cf_role"]),), "CFA 0.4 marks its variables by this attribute", values=False)


def notes(aggregation: Aggregation) -> list[str]:
    """Return notes on information that is left out because it is stored elsewhere."""
    partitions = aggregation.partitions
    flags = np.array([*(layout.packing is not None for layout in partitions.layouts), False])
    count = int((encoded.stored(aggregation) & flags[partitions.layout]).sum())
    note = (
        f"variable {aggregation.name!r}: the packing code of {count:,} partition{'s'[: count != 1]} is not written: "
        "the headers of the fields give it themselves"
    )
    return [note] if count else []


def write(aggregation: Aggregation, names: Names | None = None) -> Encoded:
    r"""Return the CFA variable with all its attributes.

    Information that cannot be expressed is left out if values do not depend on it; `lacks` lists it.

    Raises
    ------
    ConventionError
        Information on which values depend cannot be expressed; ``problems`` lists all of it.

    Examples
    --------
    >>> import numpy as np
    >>> from cfagg.model import Aggregation, Grid, Layout, Partitions
    >>> one = Partitions.build(1, file=0, address=0, files=["a.nc"], addresses=["t"], layouts=[Layout(("x",))])
    >>> made = write(Aggregation("t", ("x",), (5,), np.dtype("f4"), Grid([[0, 5]]), one))
    >>> made.attributes["cfa_dimensions"], made.attributes["cf_role"]
    ('x', 'cfa_variable')
    >>> print(made.attributes["cfa_array"].replace(' "subarray"', '\n "subarray"'))
    {"base": "", "Partitions": [{"index": [], "location": [[0, 4]],
     "subarray": {"shape": [5], "file": "a.nc", "ncvar": "t"}}]}
    """
    del names
    encoded.check(aggregation, lacks(aggregation), DIALECT)
    findings = Findings(f"variable {aggregation.name!r}")
    check_text(aggregation, findings, "cfa_dimensions")
    findings.check("CFA 0.4 cannot describe this aggregation")
    dims, matrix = aggregation.dims, aggregation.grid.matrix_shape
    split = [d for d, n in enumerate(matrix) if n != 1]
    head: dict[str, object] = {}
    if split:
        head = {"pmdimensions": [dims[d] for d in split], "pmshape": [matrix[d] for d in split]}
    if not all(map(_ABSOLUTE, aggregation.partitions.files)):
        head["base"] = ""
    start = as_json(head)[:-1] + (", " if head else "")
    marks = {
        "cf_role": "cfa_variable",
        "cfa_dimensions": " ".join(dims),
        "cfa_array": f'{start}"Partitions": [{", ".join(records(aggregation, split, _Cfa()))}]}}',
    }
    attributes = encoded.own_attributes(aggregation) | marks
    return Encoded(DIALECT, aggregation.dtype, attributes, more_dimensions(aggregation))
