"""Fragments whose elements all have one value, which is stored in the aggregation file itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions.instructions import Instructions
from cfagg.errors import ConventionError
from cfagg.model import Grid, Layout, Partitions

__all__ = ["in_type_of", "unique_values"]

#: Attributes that give the missing value of an array, and those that define which values are missing.
_FILLS = ("_FillValue", "missing_value")
_GAPS = (*_FILLS, "valid_min", "valid_max", "valid_range")


def unique_values(said: Instructions, term: str, grid: Grid) -> Partitions:
    """Return partitions with the values of the variable of a term; missing ones are masked in the table."""
    found = said.find(term)
    for name in ("scale_factor", "add_offset"):
        if name in found.attributes:
            raise said.error(
                f"{term}: {said.terms[term]!r} has the attribute {name}, which is not applied to its values: unpack "
                "them"
            )
    units = found.attributes.get("units")
    if units is not None and units != said.others.get("units"):
        raise said.error(
            f"{term}: {said.terms[term]!r} has units {units!r}, but its values are read in those of the aggregation, "
            f"{said.others.get('units')!r}: give them in these"
        )
    if found.shape != said.cells:
        raise said.error(
            f"{term}: {said.terms[term]!r} has shape {found.shape}, but the array of fragments has shape {said.cells}"
        )
    values = said.values(term)
    missing = np.ma.getmaskarray(values).ravel()[: grid.size]
    declared = said.others.keys().isdisjoint(_FILLS) and not found.attributes.keys().isdisjoint(_GAPS)
    if declared and said.dtype.kind in "iu" and missing.any():
        first = said.place(int(np.flatnonzero(missing)[0]), said.cells)
        raise said.error(
            f"{term}: the value of fragment {first} is missing, and the aggregation, of type {said.dtype.name}, "
            "declares no missing value; declare a _FillValue on the aggregation"
        )
    codes, table = _distinct(in_type_of(said, term, values.data.ravel()[: grid.size], missing), missing)
    return Partitions.build(grid.size, value=codes, values=table, layouts=[Layout(said.dims)])


def _distinct(
    values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
    """Return codes and the table of distinct values in order of first use, with a masked one for missing values."""
    if values.dtype.kind == "O":
        number: dict[Any, int] = {}
        keys = (None if gone else v for v, gone in zip(values.tolist(), missing.tolist(), strict=True))
        codes = np.fromiter((number.setdefault(k, len(number)) for k in keys), np.int32, values.size)
        table = np.empty(len(number), object)
        table[:] = ["" if v is None else v for v in number]
        gaps = np.array([v is None for v in number], bool)
    else:
        # Comparing bits distinguishes zeros of either sign, but not equal NaNs.
        held = values[~missing]
        _, first, inverse = np.unique(held.view(f"u{held.dtype.itemsize}"), return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        codes = np.full(values.size, len(order), np.int32)
        codes[~missing] = rank[inverse.ravel()]
        table = held[first[order]]
        gaps = np.zeros(len(table), bool)
        if missing.any():
            table, gaps = np.append(table, values.dtype.type(0)), np.append(gaps, True)
    return codes, np.ma.MaskedArray(table, gaps) if gaps.any() else table


def in_type_of(
    said: Instructions, term: str, values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]
) -> npt.NDArray[Any]:
    """Return values as the aggregation stores them; its type, with ``_Unsigned``, must be able to represent them.

    Values of its own type are taken as stored in the same way.
    """
    dtype = said.dtype.newbyteorder("=")
    if dtype.kind == "O" and values.dtype.kind == "O":
        return values
    if dtype.kind not in "iuf" or values.dtype.kind not in "iuf":
        raise said.error(f"{term}: {said.terms[term]!r} holds {_named(values.dtype)}, the aggregation {_named(dtype)}")
    if values.dtype == dtype:
        return values
    flag = str(said.others.get("_Unsigned", "")).strip().lower()
    kind = {"true": "u", "false": "i"}.get(flag, dtype.kind) if dtype.kind in "iu" else dtype.kind
    meant = np.dtype(f"{kind}{dtype.itemsize}")
    with np.errstate(all="ignore"):
        typed = values.astype(meant)
        if kind != "f":
            # In the common type, distinct integers beyond 2**53 would become equal.
            lost = (typed.astype(values.dtype) != values) | ((typed < 0) != (values < 0))
            if values.dtype.kind == "f":
                info = np.iinfo(meant)
                lost |= ~((values >= float(info.min)) & (values < float(info.max) + 1))
        elif values.dtype.kind == "f":
            lost = np.isinf(typed) & np.isfinite(values)
        else:
            lost = (typed.astype(values.dtype) != values) | (typed >= float(np.iinfo(values.dtype).max) + 1)
    lost &= ~missing
    if lost.any():
        first = int(np.flatnonzero(lost)[0])
        raise ConventionError(
            f"{said.subject}: {term}: the value {values[first]} of fragment {said.place(first, said.cells)} cannot be "
            f"held by the type of the aggregation, {meant.name}"
        )
    return typed.view(dtype)


def _named(dtype: np.dtype[Any]) -> str:
    return {"O": "text", "S": "single characters"}.get(dtype.kind, dtype.name)
