"""The partial sums of one chunk: reading it, reducing it once over all combinations of dimensions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.journal import record_type
from cfagg.accumulation.mask import Meaning
from cfagg.accumulation.scratch import Field
from cfagg.accumulation.window import Window
from cfagg.errors import CfaggError, LimitError, StaleError
from cfagg.fastzlib import crc32
from cfagg.zarrs import read_chunk

__all__ = ["Found", "Recipe", "compute"]

Axes = tuple[int, ...]

#: Below so many elements the whole build is done before the compiler has been loaded.
_SMALL_JOB = 10_000_000


@dataclass(frozen=True, eq=False)
class Recipe:
    """What is computed of every chunk; small enough to be sent to another machine.

    Parameters
    ----------
    window : Window
        The chunks, and the array they belong to.
    meaning : Meaning
        Which elements count.
    axes_sets : tuple of tuple of int
        Combinations of axes to sum over; that of all axes goes into the records, not among the fields.
    statistics : tuple of tuple of int
        Those with statistics.
    sums : {"float64", "int64", "double-double"}
        In which numbers.
    weights : float64 array, optional
        Weights, over `weight_axes` alone.
    weight_axes : tuple of int
        Axes of the array that the weights span.
    """

    window: Window
    meaning: Meaning
    axes_sets: tuple[Axes, ...]
    statistics: tuple[Axes, ...]
    sums: str
    weights: npt.NDArray[np.float64] | None = None
    weight_axes: Axes = ()

    @cached_property
    def whole(self) -> Axes:
        """The combination of all axes."""
        return tuple(range(self.window.array.ndim))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """Partial sums that are kept in files."""
        total, values = ("<i8" if self.sums == "int64" else "<f8"), self.meaning.dtype.newbyteorder("<").str
        out = []
        for axes in self.axes_sets:
            if axes == self.whole:
                continue
            kinds = [("sum", total), ("excluded", "<i8")]
            if self.sums == "double-double":
                kinds.append(("low", "<f8"))
            if self.weights is not None:
                kinds.append(("weights", "<f8"))
                if self.sums == "double-double":
                    kinds.append(("weights_low", "<f8"))
            if axes in self.statistics:
                kinds += [("min", values), ("max", values), ("m2", "<f8")]
            out += [Field(kind, axes, dtype) for kind, dtype in kinds]
        return tuple(out)

    @cached_property
    def record_type(self) -> np.dtype[Any]:
        """Type of the record of a chunk."""
        total, values = ("<i8" if self.sums == "int64" else "<f8"), self.meaning.dtype.newbyteorder("<").str
        cells: list[tuple[str, str]] = []
        if self.whole in self.axes_sets:
            cells += [("sum", total), ("low", "<f8"), ("weights", "<f8"), ("weights_low", "<f8")]
        if self.whole in self.statistics:
            cells += [("min", values), ("max", values), ("m2", "<f8")]
        return record_type(cells)

    @property
    def compiled(self) -> bool:
        """Whether the job is large enough for compiled code."""
        return self.window.elements > _SMALL_JOB


@dataclass(frozen=True, eq=False)
class Found:
    """What one chunk has: its record, and the pieces of the fields that are not all zeros."""

    record: npt.NDArray[Any]
    pieces: tuple[tuple[Field, npt.NDArray[Any]], ...]


def compute(recipe: Recipe, number: int, stamp: tuple[int, int], *, look: bool = False) -> Found:
    """Return the partial sums of one chunk.

    Parameters
    ----------
    recipe : Recipe
        What is computed.
    number : int
        Number of the chunk in the window.
    stamp : tuple of int
        Size and time of the stored object that holds it, as seen when the build began; (-1, 0) for none.
    look : bool
        Whether to look at the object again: another machine may see another file, or none.

    Raises
    ------
    FragmentReadError
        The chunk is damaged.
    StaleError
        The object is not the one that was seen.
    LimitError
        A sum is beyond 64 bits.
    """
    window, array = recipe.window, recipe.window.array
    index = window.index(number)
    if look and _stamp(f"{array.folder}/{array.key(array.object_of(index))}") != stamp:
        raise _changed(recipe, index)
    block = read_chunk(array, index)
    # A shard that is stored need not hold all of its chunks; one that is not holds none.
    if (block is None and stamp[0] >= 0 and array.objects is array.grid) or (block is not None and stamp[0] < 0):
        raise _changed(recipe, index)
    if block is None:
        block = np.full(window.shape(number), array.fill_value, array.dtype)
    if recipe.meaning.mask.unsigned:
        block = block.view(recipe.meaning.dtype)
    from cfagg.kernels.cumulative import partial_sums

    mask = recipe.meaning.mask
    try:
        partials = partial_sums(
            block,
            recipe.axes_sets,
            fills=mask.fills,
            valid_min=mask.valid_min,
            valid_max=mask.valid_max,
            weights=_weights(recipe, index, block.shape),
            double_double=recipe.sums == "double-double",
            statistics=recipe.statistics,
            compiled=recipe.compiled,
        )
    except OverflowError as error:
        raise LimitError(
            f"{array.store}: array {array.path!r}, chunk {index}: {error}; sum in real numbers with "
            "precision='float64' (--precision float64)"
        ) from error
    pieces = tuple(_pieces(recipe, partials, block.shape))
    record = np.zeros((), recipe.record_type)
    record["number"], record["size"], record["time"] = number, *stamp
    record["missing"], record["nonfinite"] = partials.missing, partials.nonfinite
    check = 0
    for _, piece in pieces:
        check = crc32(memoryview(piece.reshape(-1).view(np.uint8)), check)
    record["pieces"] = check
    whole, names = recipe.whole, record.dtype.names or ()
    if "sum" in names:
        record["sum"] = partials.sums[whole]
        if partials.low is not None:
            record["low"] = partials.low[whole]
        if recipe.weights is not None and partials.weights is not None:
            record["weights"] = partials.weights[whole]
            if partials.weights_low is not None:
                record["weights_low"] = partials.weights_low[whole]
    if "m2" in names:
        found = partials.statistics[whole]
        record["min"], record["max"], record["m2"] = found.minimum, found.maximum, found.m2
    return Found(record, pieces)


def _pieces(recipe: Recipe, partials: Any, shape: tuple[int, ...]) -> Iterator[tuple[Field, npt.NDArray[Any]]]:
    """Yield the pieces of a chunk in the order of the fields."""
    for field in recipe.fields:
        axes, kind = field.axes, field.kind
        if kind == "excluded":
            if partials.counts is None:
                continue
            cells = 1
            for a in axes:
                cells *= shape[a]
            found: Any = cells - partials.counts[axes]
        elif kind == "sum":
            found = partials.sums[axes]
        elif kind in ("low", "weights", "weights_low"):
            found = getattr(partials, kind)
            # Integers have no low parts; those of a field that is there anyway are 0.
            if found is None:
                continue
            found = found[axes]
        else:
            statistics = partials.statistics[axes]
            found = getattr(statistics, {"min": "minimum", "max": "maximum"}.get(kind, kind))
        yield field, np.ascontiguousarray(found, field.dtype)


def _weights(recipe: Recipe, index: tuple[int, ...], shape: tuple[int, ...]) -> npt.NDArray[np.float64] | None:
    """Return the weights of a chunk, broadcastable to it."""
    if recipe.weights is None:
        # Integers are summed in real numbers where they have weights.
        wanted = recipe.sums != "int64" and recipe.meaning.dtype.kind in "iu"
        return np.broadcast_to(np.float64(1.0), shape) if wanted else None
    extent = recipe.window.array.grid.extent(index)
    part = recipe.weights[tuple(slice(*extent[a]) for a in recipe.weight_axes)]
    place = [1] * len(shape)
    for a in recipe.weight_axes:
        place[a] = shape[a]
    return part.reshape(place)


def _stamp(path: str) -> tuple[int, int]:
    """Return size and time of a file, (-1, 0) where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116  (Path costs as much again)
    except (FileNotFoundError, NotADirectoryError):
        return (-1, 0)
    return status.st_size, status.st_mtime_ns


def _changed(recipe: Recipe, index: tuple[int, ...]) -> CfaggError:
    array = recipe.window.array
    return StaleError(
        f"{array.store}: array {array.path!r}, chunk {index} is not the one that was there when the accumulation was "
        "begun (written since, or not seen by a Dask worker); run again with resume=True (--resume) when it is not "
        "being written"
    )
