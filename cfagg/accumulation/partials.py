"""The partial sums of one chunk: reading it, reducing it once over all combinations of dimensions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.scratch import Field, Window
from cfagg.accumulation.source import Meaning, mask_of, within_limit
from cfagg.arrays.chunked import ZarrReader
from cfagg.errors import CfaggError, LimitError, StaleError
from cfagg.formats.fastzlib import crc32
from cfagg.formats.zarr import checksum, object_checksum
from cfagg.kernels.cumulative.mask import Mask, native_block

__all__ = ["ChunkSums", "Recipe", "compute", "compute_without"]

Axes = tuple[int, ...]

#: Values of a chunk from which their usual magnitude is taken.
_SAMPLE = 512

#: Below so many elements the whole build is done before the compiler has been loaded.
_SMALL_JOB = 10_000_000


@dataclass(frozen=True, eq=False)
class Recipe:
    """What is computed of every chunk; small enough to be sent to another machine."""

    window: Window
    meaning: Meaning
    #: Combinations of axes to sum over; that of all axes goes into the records, not among the fields.
    axes_sets: tuple[Axes, ...]
    #: Those with statistics.
    statistics: tuple[Axes, ...]
    sums: str
    #: Weights, over `weight_axes` alone.
    weights: npt.NDArray[np.float64] | None = None
    weight_axes: Axes = ()

    @cached_property
    def reader(self) -> ZarrReader:
        """What reads the array."""
        return ZarrReader(self.window.array)

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
        if self.judged:
            cells += [("small", "<f8"), ("middle", "<f8"), ("largest", "<f8")]
        return record_type(cells)

    @property
    def judged(self) -> bool:
        """Whether sums may lose digits, so that it matters how large the values are."""
        return self.sums != "int64"

    @property
    def judged_statistics(self) -> tuple[Axes, ...]:
        """Combinations of axes whose statistics are taken: also that of all axes where magnitudes matter."""
        more = self.judged and self.whole not in self.statistics
        return (*self.statistics, self.whole) if more else self.statistics

    @property
    def compiled(self) -> bool:
        """Whether the job is large enough for compiled code."""
        return self.window.elements > _SMALL_JOB


@dataclass(frozen=True, eq=False)
class ChunkSums:
    """What one chunk has: its record, and the parts of the fields that are not all zeros."""

    record: npt.NDArray[Any]
    parts: tuple[tuple[Field, npt.NDArray[Any]], ...]


def compute(recipe: Recipe, number: int, stamp: tuple[int, ...], *, look: bool = False) -> ChunkSums:
    """Return the partial sums of one chunk, of an object with this `stamp` when the build began."""
    index, checks = recipe.window.index(number), list[int]()
    block = _block(recipe, number, stamp, checks, look=look)
    mask = recipe.meaning.mask
    partials = _partials(recipe, index, block, recipe.judged_statistics, mask.valid_min, mask.valid_max)
    parts = tuple(_parts(recipe, partials, block.shape))
    record = np.zeros((), recipe.record_type)
    record["number"], record["checksum"] = number, sum(checks)
    record["size"], record["time"], record["changed"], record["inode"] = stamp
    record["missing"], record["nonfinite"] = partials.missing, partials.nonfinite
    check = 0
    for _, part in parts:
        check = crc32(memoryview(part.reshape(-1).view(np.uint8)), check)
    record["parts"] = check
    whole, names = recipe.whole, record.dtype.names or ()
    for name, total in _totals(recipe, partials):
        record[name] = total
    if "m2" in names:
        found = partials.statistics[whole]
        record["min"], record["max"], record["m2"] = found.minimum, found.maximum, found.m2
    if recipe.judged:
        found = partials.statistics[whole]
        record["largest"] = max(abs(float(found.minimum)), abs(float(found.maximum)))
        record["small"], record["middle"] = _magnitudes(block, mask_of(recipe.meaning.dtype, mask))
    return ChunkSums(record, parts)


@dataclass(frozen=True, eq=False)
class Remainder:
    """What one chunk has without cells beyond a limit, and these."""

    #: What its record has otherwise.
    record: dict[str, Any]
    parts: tuple[tuple[Field, npt.NDArray[Any]], ...]
    #: Positions in the array, shape (cells, dimensions), and stored values of the cells that are left out.
    positions: npt.NDArray[np.int64]
    values: npt.NDArray[Any]
    #: The largest magnitude of the rest.
    largest: float


def compute_without(recipe: Recipe, number: int, limit: float, most: int) -> Remainder | None:
    """Return the partial sums of one chunk without cells beyond a limit; None where these are more than so many."""
    index = recipe.window.index(number)
    block = _block(recipe, number, None)
    valid, within = (
        mask_of(recipe.meaning.dtype, recipe.meaning.mask),
        mask_of(recipe.meaning.dtype, recipe.meaning.mask, limit),
    )
    found = valid.valid(block) & ~within.valid(block)
    at = np.argwhere(found)
    if len(at) > most:
        return None
    low, high = within_limit(recipe.meaning.mask, limit)
    partials = _partials(recipe, index, block, (recipe.whole,), low, high)
    starts = [a for a, _ in recipe.window.array.grid.extent(index)]
    record = dict(_totals(recipe, partials))
    record["missing"] = partials.missing
    rest = partials.statistics[recipe.whole]
    return Remainder(
        record,
        tuple(_parts(recipe, partials, block.shape, statistics=False)),
        at.astype(np.int64) + np.array(starts, np.int64),
        block[found].astype(recipe.meaning.dtype.newbyteorder("=")),
        max(abs(float(rest.minimum)), abs(float(rest.maximum))),
    )


def _magnitudes(block: npt.NDArray[Any], mask: Mask) -> tuple[float, float]:
    """Return below which magnitude 5 % of the values that count and are not 0 lie, and below which half of them."""
    step = max(1, block.size // _SAMPLE) | 1  # odd, so that not the same column is met in every row
    sample = native_block(block.reshape(-1)[::step])
    size = np.abs(sample[mask.valid(sample)].astype(np.float64))
    size = np.sort(size[size > 0])
    return (float(size[len(size) // 20]), float(size[len(size) // 2])) if len(size) else (0.0, 0.0)


def _block(
    recipe: Recipe,
    number: int,
    stamp: tuple[int, ...] | None,
    checks: list[int] | None = None,
    *,
    look: bool = False,
) -> npt.NDArray[Any]:
    """Return a chunk as it is summed; `stamp` as of `compute`, None where it was read before."""
    # The checksum of the object that holds it goes into `checks`, for the first chunk of each object.  With `look` it
    # is looked at again: another machine may see another file, or none.
    window, array = recipe.window, recipe.window.array
    index = window.index(number)
    if look and _stamp(f"{array.folder}/{array.key(array.object_of(index))}") != (stamp or ())[:2]:
        raise _changed(recipe, index)
    seen = None
    if checks is not None and array.objects is array.grid and array.decoder is not None:
        found = checks
        seen = lambda stored: found.append(checksum(stored))  # noqa: E731
    block = recipe.reader.chunk(index, seen=seen)
    # A shard that is stored need not hold all of its chunks; one that is not holds none.
    there = stamp is not None and stamp[0] >= 0
    if stamp is not None and (
        (block is None and there and array.objects is array.grid) or (block is not None and not there)
    ):
        raise _changed(recipe, index)
    if checks is not None and stamp is not None and there and not checks and window.leading[number]:
        # Of a shard once: it was just read in part, and is in the system's memory or comes there for its other chunks.
        held = object_checksum(array, array.object_of(index))
        if held is None or held[0] != stamp[0]:
            raise _changed(recipe, index)
        checks.append(held[1])
    if block is None:
        block = np.full(window.shape(number), array.fill_value, array.dtype)
    as_read = recipe.meaning.mask.unsigned or block.dtype.kind == "b"
    return block.view(recipe.meaning.dtype) if as_read else block


def _partials(
    recipe: Recipe, index: tuple[int, ...], block: npt.NDArray[Any], statistics: tuple[Axes, ...], low: Any, high: Any
) -> Any:
    """Return the partial sums of a block over values in a range."""
    from cfagg.kernels.cumulative import partial_sums

    array = recipe.window.array
    try:
        return partial_sums(
            block,
            recipe.axes_sets,
            fills=recipe.meaning.mask.fills,
            valid_min=low,
            valid_max=high,
            weights=_weights(recipe, index, block.shape),
            double_double=recipe.sums == "double-double",
            statistics=statistics,
            compiled=recipe.compiled,
        )
    except OverflowError as error:
        raise LimitError(
            f"{array.store}: array {array.path!r}, chunk {index}: {error}; sum in real numbers with "
            "precision='float64' (--precision float64)"
        ) from error


def _totals(recipe: Recipe, partials: Any) -> Iterator[tuple[str, Any]]:
    """Yield the sums over a whole chunk that its record keeps."""
    whole = recipe.whole
    if whole not in recipe.axes_sets:
        return
    yield "sum", partials.sums[whole]
    for name in ("low", "weights", "weights_low"):
        found = getattr(partials, name)
        if found is not None and (name == "low" or recipe.weights is not None):
            yield name, found[whole]


def _parts(
    recipe: Recipe, partials: Any, shape: tuple[int, ...], *, statistics: bool = True
) -> Iterator[tuple[Field, npt.NDArray[Any]]]:
    """Yield the parts of a chunk in the order of the fields."""
    for field in recipe.fields:
        axes, kind = field.axes, field.kind
        if kind in ("min", "max", "m2") and not statistics:
            continue
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


_HEAD = [
    ("number", "<i8"),
    # Stamp of the stored object that the chunk was read from, and its checksum for the first chunk of each object.
    ("size", "<i8"),
    ("time", "<i8"),
    ("changed", "<i8"),
    ("inode", "<i8"),
    ("checksum", "<i8"),
    ("missing", "<i8"),
    ("nonfinite", "<i8"),
    # CRC-32 of the partial sums, and of the record.
    ("parts", "<u4"),
    ("check", "<u4"),
]


def record_type(cells: list[tuple[str, str]]) -> np.dtype[Any]:
    """Return the type of a record that ends with `cells`, sums and statistics over the whole chunk."""
    return np.dtype([*_HEAD, *cells])
