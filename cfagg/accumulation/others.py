"""Accumulation groups of other writers: those that follow the convention alone, without cfagg's own attribute.

Such a group says neither of which data it is nor how they were masked.  What it names is checked against the array as
it is now: samples at every so many chunks, the last one at the array's end or left out; dimensions in any order; sums
in any type of number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.arrays import SumArrays, find
from cfagg.accumulation.group import Group, command
from cfagg.accumulation.mask import read_meaning
from cfagg.conventions.accumulation import Combinations, Names, parse_array, sample_positions
from cfagg.conventions.accumulation_model import Dims, Table
from cfagg.errors import ConventionError, NotAccumulatedError, Problem
from cfagg.zarrs.documents import node_folder
from cfagg.zarrs.metadata import ZarrArray

__all__ = ["open_foreign"]

Samples = tuple[npt.NDArray[np.int64] | None, ...]


def open_foreign(source: ZarrArray, path: str, combinations: Combinations, identity: tuple[int, int, int]) -> Group:
    """Return an accumulation group that another program wrote, as far as it can be used.

    Parameters
    ----------
    source : ZarrArray
        The array.
    path : str
        Path of the group.
    combinations : Combinations
        What the group names.
    identity : tuple of int
        Identity of the group's metadata document.

    Raises
    ------
    NotAccumulatedError
        None of its sums can be used; says why for each.
    """
    meaning = read_meaning(source)
    sums: dict[Dims, SumArrays] = {}
    samples: dict[Dims, Samples] = {}
    problems: list[Problem] = []
    for combination, names in combinations.items():
        before = len(problems)
        arrays = _arrays(source, path, combination, names, problems)
        if arrays is not None and len(problems) == before:
            sums[combination], samples[combination] = arrays
    if not sums:
        raise NotAccumulatedError(
            f"{source.store}: the accumulation of {source.path!r} was not written by cfagg and cannot be used; build "
            f"one with: {command(source.store, source.path, '--overwrite')}",
            problems,
        )
    left_out = f" ({'; '.join(map(str, problems))})" if problems else ""
    packing = meaning.packing
    integers = all(a.data.dtype.kind in "iu" for a in sums.values())
    return Group(
        store=source.store,
        variable=source.path,
        folder=node_folder(source.store, path),
        source=source,
        dims=source.dims,
        sums=Table(sums),
        samples=Table(samples),
        statistics=Table(),
        scale=1.0 if packing is None else float(packing.scale_factor),
        offset=0.0 if packing is None else float(packing.add_offset),
        dtype=meaning.dtype,
        mask=meaning.mask,
        weights=None,
        kind="int64" if integers else "float64",
        complete=False,
        extra=None,
        stamps=None,
        foreign="it was not written by cfagg: whether its sums belong to the data as they are now cannot be checked"
        + left_out,
        identity=identity,
    )


def _arrays(
    source: ZarrArray, path: str, combination: Dims, names: Names, problems: list[Problem]
) -> tuple[SumArrays, Samples] | None:
    """Return the arrays of one combination and where their samples are, or note why they cannot be used."""
    label = "+".join(combination)
    if names.unweighted is None:
        problems.append(Problem(label, "only weighted sums, and the group does not keep the weights themselves"))
        return None
    if names.weights is None:
        problems.append(Problem(label, "no counts beside the sums"))
        return None
    data, counts = (find(source.store, path, name, problems) for name in (names.unweighted, names.weights))
    if data is None or counts is None:
        return None
    if data.dims != counts.dims or data.shape != counts.shape:
        problems.append(Problem(names.weights, f"not of the dimensions and shape of {names.unweighted!r}"))
        return None
    strides = []
    for array in (data, counts):
        try:
            parsed = parse_array(
                {**array.attributes, "_ARRAY_DIMENSIONS": list(array.dims)},
                dims=source.dims,
                combination=combination,
            )
        except ConventionError as error:
            problems.extend(Problem(f"{array.name}.{p.where}", p.message) for p in error.problems)
            return None
        strides.append(parsed.stride)
        if array.dtype.kind not in "iuf":
            problems.append(Problem(array.name, f"numbers expected, found {array.dtype.name}"))
    if strides[0] != strides[1]:
        problems.append(Problem(names.weights, f"strides {strides[1]}, those of {names.unweighted!r} are {strides[0]}"))
    axes = tuple(source.dims.index(d) for d in data.dims)
    samples: list[npt.NDArray[np.int64] | None] = [None] * source.ndim
    for axis, size, stride in zip(axes, data.shape, strides[0], strict=True):
        length = source.shape[axis]
        if not stride:
            if size != length:
                problems.append(Problem(data.name, f"size {length} along {source.dims[axis]!r} expected, found {size}"))
            continue
        whole = sample_positions(source.grid.axes[axis], length, stride)
        fewest = source.grid.matrix_shape[axis] // stride
        if not fewest <= size <= len(whole):
            expected = f"{fewest} to {len(whole)} samples along {source.dims[axis]!r}"
            problems.append(Problem(data.name, f"{expected} expected, found {size}"))
        samples[axis] = whole[:size]
    return SumArrays(data, counts, None, None, None, axes), tuple(samples)
