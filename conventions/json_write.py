"""The JSON of NCA and CFA: the records of partitions, which differ in the names of keys and the form of ranges."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from cfagg.conventions import part as part_module
from cfagg.conventions.encoded import numbered, stored
from cfagg.conventions.findings import Findings
from cfagg.conventions.nca_layouts import is_netcdf
from cfagg.errors import ConventionError
from cfagg.model import Aggregation, Layout

__all__ = ["Style", "as_json", "check_text", "members", "more_dimensions", "records"]

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Style(ABC):
    """How a dialect writes a partition."""

    dialect: str
    #: The key of the sub-array.
    data: str
    #: Added to the end of a range, which is exclusive in the model.
    end: int
    #: The key for the number of a netCDF variable without a name, empty if there is none.
    number: str = ""

    @abstractmethod
    def head(self, layout: Layout, aggregation: Aggregation) -> str:
        """Return the text between the location and the part."""

    @abstractmethod
    def part(self, text: str) -> str:
        """Return a part from its canonical text."""

    @abstractmethod
    def around(self, layout: Layout) -> tuple[str, str, str]:
        """Return the text before the shape, between file and variable, and after the address."""

    @abstractmethod
    def variable(self, address: str) -> str:
        """Return the name of the variable as a member of an object."""


def as_json(value: Any) -> str:
    """Return strict JSON that can be encoded as UTF-8: surrogates are escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _LONE_SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def members(values: dict[str, Any]) -> str:
    """Return the members of a JSON object that have a value, each preceded by a comma."""
    return "".join(f", {as_json(key)}: {as_json(value)}" for key, value in values.items() if value is not None)


def check_text(aggregation: Aggregation, findings: Findings, attribute: str) -> None:
    """Note names of dimensions that cannot be in a list of words."""
    for dim in aggregation.dims:
        if not dim or len(dim.split()) != 1 or dim.split()[0] != dim:
            findings.problem(attribute, f"the name {dim!r} is not one word")


def more_dimensions(aggregation: Aggregation) -> dict[str, int]:
    """Return the dimensions of sub-arrays that the array lacks, which files have to define."""
    partitions = aggregation.partitions
    used = np.unique(partitions.layout[stored(aggregation)]).tolist()
    return {d: 1 for k in used for d in partitions.layouts[k].dims if d not in aggregation.dims}


def records(aggregation: Aggregation, split: list[int], style: Style) -> list[str]:
    """Return the JSON of each partition."""
    grid, partitions = aggregation.grid, aggregation.partitions
    findings = Findings(f"variable {aggregation.name!r}")
    matrix = grid.matrix_shape
    spans = [
        list(zip(e[:-1].tolist(), [min(int(s), n) for s in e[1:]], strict=True))
        for e, n in zip(grid.edges, grid.shape, strict=True)
    ]
    locations = _joined([f"[{a}, {b + style.end}]" for a, b in axis] for axis in spans)
    indices = _joined([str(i) for i in range(n)] if d in split else [""] for d, n in enumerate(matrix))
    shapes = _joined([str(b - a) for a, b in axis] for axis in spans)
    files = [f', "file": {as_json(v)}' for v in partitions.files] + [""]
    addresses = [f", {style.variable(v)}" for v in partitions.addresses] + [""]
    parts = [f', "part": {as_json(style.part(v))}' for v in partitions.parts] + [""]
    heads = [style.head(layout, aggregation) for layout in partitions.layouts]
    around = [style.around(layout) for layout in partitions.layouts]
    shaped = _shapes(aggregation, spans, findings)
    _check_names(aggregation, findings, style)
    findings.check(f"{style.dialect} cannot describe this aggregation")
    out = []
    keys = np.where(numbered(aggregation), style.number, "file_offset").tolist()
    columns = zip(
        indices,
        locations,
        shapes,
        partitions.file.tolist(),
        partitions.address.tolist(),
        partitions.layout.tolist(),
        partitions.offset.tolist(),
        partitions.part.tolist(),
        keys,
        strict=True,
    )
    for number, (index, location, extent, file, address, code, offset, part, key) in enumerate(columns):
        shape = shaped.get(number, extent)
        before, between, after = around[code]
        where = f', "{key}": {offset}' if offset >= 0 else ""
        out.append(
            f'{{"index": {index}, "location": {location}{heads[code]}{parts[part]}, "{style.data}": {{{before}"shape": '
            f"{shape}{files[file]}{between}{addresses[address]}{where}{after}}}}}"
        )
    return out


def _joined(axes: Iterator[list[str]]) -> Iterator[str]:
    """Yield the lists of all combinations of texts in C order, without empty ones."""
    given = list(axes)
    kept = [texts for texts in given if texts != [""]]
    if len(kept) == 1:
        return (f"[{text}]" for text in kept[0])
    return (f"[{', '.join(texts)}]" for texts in product(*kept))


def _shapes(aggregation: Aggregation, spans: list[list[tuple[int, int]]], findings: Findings) -> dict[int, str]:
    """Return shapes of sub-arrays that differ from the span of their location; note those that do not fit."""
    partitions, dims = aggregation.partitions, aggregation.dims
    plain = np.array([x.dims == dims and x.shape is None for x in partitions.layouts] or [True])
    rows = np.flatnonzero(~plain[partitions.layout] | (partitions.part >= 0))
    axes = [[dims.index(d) if d in dims else -1 for d in layout.dims] for layout in partitions.layouts]
    absent = [[d for d, name in enumerate(dims) if name not in layout.dims] for layout in partitions.layouts]
    fits: dict[tuple[int, int, tuple[int, ...]], str | None] = {}
    out: dict[int, str] = {}
    places = np.stack(np.unravel_index(rows, aggregation.grid.matrix_shape), 1).tolist() if dims else [()] * rows.size
    given = zip(rows.tolist(), places, partitions.layout[rows].tolist(), partitions.part[rows].tolist(), strict=True)
    for number, index, code, part in given:
        location = [spans[d][i] for d, i in enumerate(index)]
        extent = tuple(1 if d < 0 else location[d][1] - location[d][0] for d in axes[code])
        layout = partitions.layouts[code]
        shape = layout.shape if layout.shape is not None else extent
        out[number] = str(list(shape))
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
    return out


def _check_names(aggregation: Aggregation, findings: Findings, style: Style) -> None:
    """Note netCDF partitions without the name of a variable."""
    partitions = aggregation.partitions
    netcdf = np.array([is_netcdf(layout.format) for layout in partitions.layouts] or [True])
    nameless = (partitions.address < 0) & netcdf[partitions.layout]
    if style.number:
        nameless &= partitions.offset < 0
    for number in np.flatnonzero(nameless).tolist():
        findings.problem(f"Partitions[{number}].{style.data}.ncvar", "a netCDF partition needs the name of a variable")


def _part_problem(part: str, shape: tuple[int, ...], extent: tuple[int, ...]) -> str | None:
    """Return the reason why a part of a sub-array of this shape does not fill this extent."""
    try:
        taken = part_module.counts(part_module.parse(part, shape))
    except ConventionError as error:
        return error.message
    return None if taken == extent else f"{part} takes {taken} of {shape}, but the location spans {extent}"
