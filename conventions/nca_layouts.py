"""Descriptions of sub-arrays in the partitions of an NCA variable, as distinct layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions.columns import MISSING
from cfagg.conventions.findings import Findings, shorten
from cfagg.conventions.nca_records import RawLayout, Records, dtype_problem
from cfagg.model import Layout

__all__ = ["is_netcdf", "resolve_layouts"]


def is_netcdf(name: str | None) -> bool:
    """Return whether a `format` means netCDF, as its absence does."""
    return name is None or name.lower().startswith("netcdf")


def resolve_layouts(
    records: Records,
    dims: tuple[str, ...],
    directions: tuple[bool, ...] | bool,
    known: frozenset[str],
    units: str | None,
    calendar: str | None,
    findings: Findings,
) -> tuple[list[Layout], npt.NDArray[np.int32]]:
    """Return the distinct layouts, and the code of each partition in the order of the list."""
    if findings.problems:
        return [], np.zeros(0, np.int32)
    master = dict(zip(dims, directions, strict=True)) if isinstance(directions, tuple) else {}
    raw_codes = records.column("layout").astype(np.int32)
    nameless = _nameless(records, raw_codes)
    table: dict[Layout, int] = {}
    translation = []
    for code, (raw, number) in enumerate(zip(records.layouts, records.layout_places, strict=True)):
        where = f"Partitions[{number}]"
        entry = _layout(RawLayout(*raw), dims, master, known, where, findings)
        if code in nameless and is_netcdf(entry["format"]):
            first = nameless[code]
            findings.problem(
                f"Partitions[{first}].data.ncvar", "the key is missing; a netCDF file holds many variables"
            )
        if entry["units"] == units:
            entry["units"] = None
        if entry["calendar"] == calendar:
            entry["calendar"] = None
        if not findings.problems:
            layout = Layout(**entry)
            translation.append(table.setdefault(layout, len(table)))
    if findings.problems:
        return [], np.zeros(0, np.int32)
    return list(table), np.array(translation, np.int32)[raw_codes]


def _nameless(records: Records, codes: npt.NDArray[np.int32]) -> dict[int, int]:
    """Return the raw layouts of partitions without a variable name, with the number of the first such partition."""
    without = np.flatnonzero(~records.column("named"))
    used, first = np.unique(codes[without], return_index=True)
    return dict(zip(used.tolist(), records.column("number")[without[first]].tolist(), strict=True))


def _layout(
    raw: RawLayout, dims: Sequence[str], master: dict[str, bool], known: frozenset[str], where: str, findings: Findings
) -> dict[str, Any]:
    """Return the fields of a layout."""
    names = dims if raw.dims is MISSING else raw.dims
    given = dict(raw.directions) if isinstance(raw.directions, tuple) else {}
    for dim in given:
        if dim in master and dim not in known:
            findings.problem(
                f"{where}.directions.{dim}", "the master array's directions do not say which way this dimension runs"
            )
    if raw.dtype is not MISSING and (message := dtype_problem(raw.dtype)) is not None:
        findings.problem(f"{where}.data.dtype", message)
    format_ = _value(raw.format)
    packing: dict[str, float | None] = {}
    for key, value in (("scale_factor", raw.scale_factor), ("add_offset", raw.add_offset)):
        packing[key] = None
        if value is MISSING:
            continue
        number = _finite(value)
        if number is None:
            findings.problem(f"{where}.data.{key}", f"finite number expected, found {shorten(value)}")
        else:
            packing[key] = _for_other_formats(key, number, format_, where, findings)
    fill = _for_other_formats("_FillValue", raw.fill, format_, where, findings)
    endian = _for_other_formats("endian", raw.endian, format_, where, findings)
    if endian not in (None, "big", "little"):
        findings.problem(f"{where}.data.endian", f"big or little expected, found {shorten(endian)}")
    if raw.lbpack is not MISSING and not 0 <= raw.lbpack < 2**31:
        findings.problem(f"{where}.data.lbpack", f"{shorten(raw.lbpack)} is not a packing code")
    return {
        "dims": tuple(names),
        "flipped": tuple(d in master and given.get(d, master[d]) != master[d] for d in names),
        "units": _value(raw.units),
        "calendar": _value(raw.calendar),
        "dtype": _value(raw.dtype),
        "packing": _value(raw.lbpack),
        "format": format_,
        "shape": _value(raw.shape),
        "fill": fill,
        "endian": endian,
        **packing,
    }


def _for_other_formats(key: str, value: Any, format_: str | None, where: str, findings: Findings) -> Any:
    """Return a value that describes a sub-array that is not a netCDF variable, which has its own."""
    if value is MISSING or not is_netcdf(format_):
        return _value(value)
    place = findings.place(f"{where}.data.{key}")
    findings.repair(
        f"netCDF {key}", f"{place} is ignored: it is for other formats, since a netCDF variable has its own"
    )
    return None


def _value(value: Any) -> Any:
    """Return a value, or None if there is none."""
    return None if value is MISSING else value


def _finite(value: float) -> float | None:
    """Return a finite number as a float, or None if there is none."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
