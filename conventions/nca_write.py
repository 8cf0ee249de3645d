"""NCA 0.1: from an aggregation to the attributes of a netCDF variable, in canonical JSON."""

from __future__ import annotations

import json
import math
import re
from itertools import product
from typing import Any

from cfagg.conventions import part as part_module
from cfagg.conventions.findings import Findings
from cfagg.conventions.nca_layouts import is_netcdf
from cfagg.errors import ConventionError
from cfagg.model import Aggregation, Layout

__all__ = ["write"]

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _json(value: Any) -> str:
    """Return strict JSON that UTF-8 can hold: what is not a character of its own stays an escape."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _LONE_SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def write(aggregation: Aggregation) -> dict[str, str]:
    r"""Return the attributes of the NCA variable that describes an aggregation.

    The JSON is canonical: strict, keys in the order of the convention's text, partitions in C order over the matrix,
    and no key whose value is the default.  Equal aggregations give equal bytes.

    Parameters
    ----------
    aggregation : Aggregation
        What to describe.

    Returns
    -------
    dict
        ``nca_dimensions`` and ``nca_array``.  Units, calendar and the rest are ordinary attributes of the variable.

    Raises
    ------
    ConventionError
        Something that NCA 0.1 cannot express; ``problems`` lists all of it.

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
    records = _records(aggregation, split)
    findings.check("NCA 0.1 cannot describe this aggregation")
    return {
        "nca_dimensions": " ".join(dims),
        "nca_array": f'{_json(head)[:-1]}, "Partitions": [{", ".join(records)}]}}',
    }


def _check(aggregation: Aggregation, findings: Findings) -> None:
    """Note everything that NCA 0.1 has no words for."""
    partitions = aggregation.partitions
    for dim in aggregation.dims:
        if not dim or len(dim.split()) != 1 or dim.split()[0] != dim:
            findings.problem("nca_dimensions", f"the name {dim!r} is not one word")
    if not partitions.present.all():
        i = int(partitions.present.argmin())
        findings.problem(f"Partitions[{i}]", "a partition is declared missing, which NCA 0.1 cannot express")
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


def _records(aggregation: Aggregation, split: list[int]) -> list[str]:
    """Return the JSON of each partition."""
    grid, partitions, dims = aggregation.grid, aggregation.partitions, aggregation.dims
    findings = Findings(f"variable {aggregation.name!r}")
    spans = [
        list(zip(e[:-1].tolist(), [min(int(s), n) for s in e[1:]], strict=True))
        for e, n in zip(grid.edges, grid.shape, strict=True)
    ]
    files = [_json(v) for v in partitions.files]
    addresses = [_json(v) for v in partitions.addresses]
    parts = [_json(v) for v in partitions.parts]
    fixed = [_layout(layout, aggregation) for layout in partitions.layouts]
    axes = [[dims.index(d) if d in dims else -1 for d in layout.dims] for layout in partitions.layouts]
    absent = [[d for d, name in enumerate(dims) if name not in layout.dims] for layout in partitions.layouts]
    fits: dict[tuple[int, int, tuple[int, ...]], str | None] = {}
    columns = zip(
        product(*(range(n) for n in grid.matrix_shape)),
        partitions.file.tolist(),
        partitions.address.tolist(),
        partitions.layout.tolist(),
        partitions.offset.tolist(),
        partitions.part.tolist(),
        strict=True,
    )
    out = []
    for number, (index, file, address, code, offset, part) in enumerate(columns):
        location = [spans[d][i] for d, i in enumerate(index)]
        extent = tuple(1 if d < 0 else location[d][1] - location[d][0] for d in axes[code])
        layout = partitions.layouts[code]
        shape = layout.shape if layout.shape is not None else extent
        if layout.shape is not None or part >= 0:
            key = (code, part, extent)
            if key not in fits:
                fits[key] = _part_problem(partitions.parts[part] if part >= 0 else "[]", shape, extent)
            if (message := fits[key]) is not None:
                findings.problem(f"Partitions[{number}].part", message)
        for d in absent[code]:
            if location[d][1] - location[d][0] != 1:
                findings.problem(
                    f"Partitions[{number}].dimensions", f"{dims[d]!r} is not among them and spans {list(location[d])}"
                )
        if address < 0 and is_netcdf(layout.format):
            findings.problem(f"Partitions[{number}].data.ncvar", "a netCDF partition needs the name of a variable")
        head, data = fixed[code]
        texts = [f'{{"index": {[index[d] for d in split]}, "location": {[list(pair) for pair in location]}', head]
        if part >= 0:
            texts.append(f', "part": {parts[part]}')
        texts.append(f', "data": {{"shape": {list(shape)}')
        if file >= 0:
            texts.append(f', "file": {files[file]}')
        texts.append(data[0])
        if address >= 0:
            texts.append(f', "ncvar": {addresses[address]}')
        if offset >= 0:
            texts.append(f', "file_offset": {offset}')
        texts.append(data[1])
        texts.append("}}")
        out.append("".join(texts))
    findings.check("NCA 0.1 cannot describe this aggregation")
    return out


def _part_problem(part: str, shape: tuple[int, ...], extent: tuple[int, ...]) -> str | None:
    """Return what keeps a part of a sub-array of this shape from filling this extent."""
    try:
        taken = part_module.counts(part_module.parse(part, shape))
    except ConventionError as error:
        return error.message
    return None if taken == extent else f"{part} takes {taken} of {shape}, but the location spans {extent}"


def _layout(layout: Layout, aggregation: Aggregation) -> tuple[str, tuple[str, str]]:
    """Return the JSON that all partitions of a layout share: between location and part, and around ncvar in data."""
    directions = aggregation.directions
    master = dict(zip(aggregation.dims, directions, strict=True)) if isinstance(directions, tuple) else {}
    spoken = {}
    for dim, flip in zip(layout.dims, layout.flipped, strict=True):
        if dim not in master:
            spoken[dim] = True  # the text wants a direction, which does nothing
        elif flip:
            spoken[dim] = not master[dim]
    head = {
        "dimensions": list(layout.dims) if layout.dims != aggregation.dims else None,
        "format": layout.format,
        "directions": spoken or None,
        "units": layout.units,
        "calendar": layout.calendar,
    }
    before = {"dtype": layout.dtype}
    after = {"lbpack": layout.packing, "scale_factor": layout.scale_factor, "add_offset": layout.add_offset}
    return _members(head), (_members(before), _members(after))


def _members(values: dict[str, Any]) -> str:
    """Return the members of a JSON object that have a value, each with a comma before it."""
    return "".join(f", {_json(key)}: {_json(value)}" for key, value in values.items() if value is not None)
