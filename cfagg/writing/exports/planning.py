"""Planning an aggregation as one array of references: which partitions can be expressed, and why others cannot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.subarray import Fragment, Indices
from cfagg.cf import conform
from cfagg.cf.header import Header
from cfagg.cf.missing import default_fill
from cfagg.cf.packing import STORAGE_ATTRIBUTES
from cfagg.errors import CfaggError, ConformError
from cfagg.findings.losses import Loss
from cfagg.formats.zarr.attributes import fill_of
from cfagg.model import Aggregation, Layout
from cfagg.runtime.progress import task
from cfagg.storage.files import Context, FileKey
from cfagg.writing.exports.codecs import named
from cfagg.writing.exports.gridding import Block, Cut, cut_of, unequal_cut
from cfagg.writing.exports.planned import Planned, References
from cfagg.writing.exports.tiles import tiles_of

__all__ = ["Means", "equal", "plan_aggregation"]

Int64 = npt.NDArray[np.int64]

#: Chunks smaller than this many bytes count as small, so that longer ones of unequal lengths may be preferred.
_SMALL = 1 << 20

#: Small chunks are too many if they outnumber chunks of unequal lengths by more than this factor.
_TIMES = 8


@dataclass(frozen=True)
class Means:
    """What a target can express, and how to handle the rest."""

    name: str
    zarr_format: Literal[2, 3]
    unequal: bool  # whether chunk lengths may differ
    on_loss: Literal["error", "materialise", "drop"] = "error"


@dataclass
class _Rows:
    """The partitions: the block of a fragment that fills each, or what is lost."""

    blocks: dict[int, Block] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)  # written, and in no file
    absent: list[int] = field(default_factory=list)
    lost: dict[int, tuple[str, str, str]] = field(default_factory=dict)


def plan_aggregation(reader: AggregationReader, path: str, attributes: Mapping[str, Any], means: Means) -> Planned:
    """Return the array for an aggregation; `attributes` are those of its variable."""
    aggregation, notes = reader.aggregation, []
    fragments: dict[int, tuple[Fragment, list[Indices]]] = {}
    rows = _Rows()
    partitions = aggregation.partitions
    with task(path, len(partitions)) as step:
        for i in range(len(partitions)):
            if partitions.value[i] >= 0:
                rows.free.append(i)
            elif not partitions.present[i]:
                rows.absent.append(i)
            else:
                fragments[i] = reader.fragment(i)
            step()
    declared = _declared(reader, fragments, means)
    if declared is not aggregation:
        attributes = {k: v for k, v in attributes.items() if k not in STORAGE_ATTRIBUTES}
        attributes |= {k: declared.attributes[k] for k in STORAGE_ATTRIBUTES if k in declared.attributes}
        if declared.dtype != aggregation.dtype:
            notes.append(f"variable {path!r} is stored as in its files: {declared.dtype.name}, with their attributes")
    for i, (fragment, indices) in fragments.items():
        found = _block(declared, fragment, indices, i)
        if isinstance(found, Block):
            rows.blocks[i] = found
        else:
            rows.lost[i] = found
    _same_encoding(rows)
    reading = reader.reading(declared).with_gaps()
    return _gridded(declared, path, attributes, rows, means, reading.read, notes)


def _declared(
    reader: AggregationReader, fragments: Mapping[int, tuple[Fragment, list[Indices]]], means: Means
) -> Aggregation:
    """Return the aggregation, or a copy with the type, packing and missing value of most of its fragments."""
    own = reader.aggregation
    kinds: Counter[Any] = Counter()
    headers: dict[Any, Header] = {}
    same = 0
    for i, (fragment, _) in fragments.items():
        header = fragment.header
        same += _is_same(own, _layout(own, i, fragment), header, fragment.place)
        key = (header.dtype, *((k, str(header.attributes.get(k))) for k in STORAGE_ATTRIBUTES))
        kinds[key] += 1
        headers.setdefault(key, header)
    if not kinds or same == len(fragments):
        return own
    header = headers[kinds.most_common(1)[0][0]]
    if header.dtype.kind not in "iuf" or own.dtype.kind not in "iuf":
        return own
    attributes = {k: v for k, v in own.attributes.items() if k not in STORAGE_ATTRIBUTES}
    attributes |= {k: header.attributes[k] for k in STORAGE_ATTRIBUTES if k in header.attributes}
    default = default_fill(header.dtype)
    if default is not None and not {"_FillValue", "missing_value"} & attributes.keys():
        # NetCDF readers treat this as missing by default, but no other readers do.
        attributes["_FillValue"] = header.dtype.type(default)
    other = replace(own, dtype=header.dtype, attributes=attributes, packs=True)
    count = sum(_is_same(other, _layout(own, i, f), f.header, f.place) for i, (f, _) in fragments.items())
    if means.on_loss == "materialise" and count < len(fragments) and (other.dtype != own.dtype or _packed(attributes)):
        # Values of the other fragments would be rounded by this packing.
        return own
    return other if count > same else own


def _layout(aggregation: Aggregation, i: int, fragment: Fragment) -> Layout:
    return fragment.layout or aggregation.partitions.layout_of(i)


#: What limits the values of a file that are not missing.
_VALID = ("valid_min", "valid_max", "valid_range")


def _packed(attributes: Mapping[str, Any]) -> bool:
    return any(name in attributes for name in ("scale_factor", "add_offset", "_Unsigned"))


def _is_same(aggregation: Aggregation, layout: Layout, header: Header, where: str) -> bool:
    """Return whether stored values are bitwise equal to those of the aggregation."""
    try:
        return conform.recipe(aggregation, layout, header, where=where).identity
    except CfaggError:
        return False


def _block(
    aggregation: Aggregation, fragment: Fragment, indices: Sequence[Indices], i: int
) -> Block | tuple[str, str, str]:
    """Return the block of a partition, or what is lost of it, the value found and the reason."""
    header = fragment.header
    layout = _layout(aggregation, i, fragment)
    recipe = conform.recipe(aggregation, layout, header, where=fragment.place)
    if not recipe.identity or recipe.source != recipe.target:
        return _difference(aggregation, layout, header)
    extent = aggregation.grid.extent(aggregation.grid.index(i))
    flipped = [d for d, flip, (a, b) in zip(aggregation.dims, recipe.flips, extent, strict=True) if flip and b - a > 1]
    if flipped:
        return "direction", f"{', '.join(flipped)} reversed", "chunks are read in the order in which they are stored"
    if any(not isinstance(one, range) or (len(one) > 1 and one.step != 1) for one in indices):
        return "part", str(aggregation.partitions.part_text(i)), "it is not one box of neighbouring elements"
    if fragment.stored is None:
        return "fragment", header.file, "its values are not stored as they are read"
    tiles = tiles_of(fragment.stored, Context(fragment.where))
    if isinstance(tiles, str):
        return "fragment", header.file, tiles
    if len(tiles.shape) != len(indices):
        return "fragment", header.file, "its values are not stored as they are read"
    chunk = tiles.chunk or (1,) * len(tiles.shape)
    wide = [k for k, (a, b) in zip(recipe.axes, extent, strict=True) if k >= 0 and (b - a > 1 or chunk[k] > 1)]
    if wide != sorted(wide):
        return "order of dimensions", ", ".join(header.dims), f"the array has {', '.join(aggregation.dims)}"
    return Block(tiles, tuple(int(one[0]) if len(one) else 0 for one in indices), recipe.axes)


def _difference(aggregation: Aggregation, layout: Layout, header: Header) -> tuple[str, str, str]:
    """Return the property of a fragment that requires computation, its value and the reason."""
    own = header.attributes
    valid = {k: str(own[k]) for k in _VALID if k in own}
    if valid and any(str(own.get(k)) != str(aggregation.attributes.get(k)) for k in _VALID):
        return "valid range", str(valid), "values outside of it are missing, and those who read references see them"
    for name, found, wanted in (
        ("calendar", layout.calendar or own.get("calendar") or aggregation.calendar, aggregation.calendar),
        ("units", layout.units or own.get("units") or aggregation.units, aggregation.units),
        ("data type", header.dtype.name, aggregation.dtype.name),
    ):
        if found != wanted:
            return name, str(found), f"the array has {wanted}, and values are stored as they are"
    packing = ("scale_factor", "add_offset", "_Unsigned")
    packed = {k: own[k] for k in packing if k in own}
    if any(str(own.get(k)) != str(aggregation.attributes.get(k)) for k in packing):
        return "packing", str({k: str(v) for k, v in packed.items()}), "an array has one packing"
    fills = {k: str(own[k]) for k in STORAGE_ATTRIBUTES if k in own and k not in packing}
    return "missing values", str(fills), "an array has one missing value and one valid range"


def _same_encoding(rows: _Rows) -> None:
    """Mark partitions as lost that are not encoded like most of the fragments."""
    seen = Counter((b.tiles.dtype.str, b.tiles.codecs) for b in rows.blocks.values())
    if len(seen) < 2:
        return
    (dtype, codecs), _ = seen.most_common(1)[0]
    for i, block in list(rows.blocks.items()):
        own = block.tiles
        if own.dtype.str != dtype:
            found = f"{own.dtype.str}"
            rows.lost[i] = ("byte order", found, f"others have {dtype}, and an array has one")
        elif own.codecs != codecs:
            found, other = (", ".join(named(n) for n, _ in c) or "none" for c in (own.codecs, codecs))
            rows.lost[i] = ("compression", found, f"others have {other}, and an array has one")
        else:
            continue
        del rows.blocks[i]


def _gridded(
    aggregation: Aggregation,
    path: str,
    attributes: Mapping[str, Any],
    rows: _Rows,
    means: Means,
    read: Callable[[tuple[slice, ...]], npt.NDArray[Any]],
    notes: list[str],
) -> Planned:
    """Choose the grid, and place the chunks of partitions in it."""
    edges, indices = aggregation.grid.edges, {i: aggregation.grid.index(i) for i in range(len(aggregation.partitions))}
    cut, misfits = _chosen(edges, indices, rows, means)
    for i, why in misfits.items():
        del rows.blocks[i]
        rows.lost[i] = why
    grid = cut.grid()
    tiles = next(iter(rows.blocks.values())).tiles if rows.blocks else None
    dtype = tiles.dtype if tiles is not None else aggregation.dtype
    fill = fill_of(attributes, aggregation.dtype, f"variable {path!r}")
    unstored = _unstored(fill, dtype, rows, means)
    cells, files, offsets, lengths = [], [], [], []
    written: list[Int64] = []
    keys: dict[FileKey, int] = {}
    for i, block in rows.blocks.items():
        touched = cut.cells(indices[i])
        chunk = [c[0] if cut.equal else c[p] for c, p in zip(cut.lengths, indices[i], strict=True)]
        places = block.tiles.places(block.start, block.of_file(chunk), block.of_file([len(r) for r in touched]))
        cell = _flat(touched, grid.matrix_shape)
        there = places.there
        cells.append(cell[there])
        files.append(np.full(int(there.sum()), keys.setdefault(block.tiles.key, len(keys))))
        offsets.append(places.offset[there])
        lengths.append(places.length[there])
        if not there.all() and not equal(block.tiles.fill, unstored, dtype):
            written.append(cell[~there])
    for i in rows.absent:
        if fill is None and aggregation.dtype.kind != "f":
            rows.lost[i] = ("missing partition", "no missing value is declared", "no value can mark what is missing")
        elif unstored is None or not equal(np.nan if fill is None else fill, unstored, dtype):
            rows.free.append(i)
    losses = [Loss(path, indices[i], *lost) for i, lost in sorted(rows.lost.items())]
    written += [_flat(cut.cells(indices[i]), grid.matrix_shape) for i in (*rows.free, *rows.lost)]
    order, columns = _sorted(cells, files, offsets, lengths)
    references = References(columns[0][order], columns[1][order], columns[2][order], columns[3][order], tuple(keys))
    if rows.absent:
        count = len(rows.absent)
        packing = f"{count:,} partition{'s are' if count > 1 else ' is'} declared missing"
        notes.append(f"variable {path!r}: where {packing}, missing values are read")
    return Planned(
        path, aggregation.dims, aggregation.shape, dtype, attributes, fill, unstored, grid,
        () if tiles is None else tiles.codecs, references,
        np.unique(np.concatenate([np.empty(0, np.int64), *written])), read, len(aggregation.partitions),
        tuple(losses), tuple(notes),
    )  # fmt: skip


def _chosen(
    edges: tuple[Int64, ...], indices: Mapping[int, tuple[int, ...]], rows: _Rows, means: Means
) -> tuple[Cut, dict[int, tuple[str, str, str]]]:
    """Return the chunks that lose the fewest partitions, and the losses of these."""
    blocks = list(rows.blocks.values())
    cut = cut_of(edges, blocks)
    lost = _misfits(cut, indices, rows)
    if not means.unequal or not blocks:
        return cut, lost
    other = unequal_cut(edges, [indices[i] for i in rows.blocks], blocks)
    grid, size = cut.grid(), blocks[0].tiles.dtype.itemsize
    many = grid.size > _TIMES * other.grid().size and int(np.prod([c[0] for c in cut.lengths])) * size < _SMALL
    if lost or many:
        lost_there = _misfits(other, indices, rows)
        if len(lost_there) < len(lost) or (many and len(lost_there) == len(lost)):
            return other, lost_there
    return cut, lost


def _misfits(cut: Cut, indices: Mapping[int, tuple[int, ...]], rows: _Rows) -> dict[int, tuple[str, str, str]]:
    found = {i: cut.misfit(indices[i], block) for i, block in rows.blocks.items()}
    return {i: why for i, why in found.items() if why is not None}


def _unstored(fill: Any, dtype: np.dtype[Any], rows: _Rows, means: Means) -> Any:
    """Return the value of chunks that are not stored, or `None` if there is none."""
    if fill is not None:
        return fill
    if rows.absent and dtype.kind == "f":
        return dtype.type(np.nan)
    if means.zarr_format == 2:
        # Readers would treat it as the missing value, and there is none.
        return None
    values = [b.tiles.fill for b in rows.blocks.values() if b.tiles.fill is not None]
    return dtype.type(values[0]) if values and dtype.kind in "iuf" else np.zeros((), dtype)[()]


def equal(one: Any, other: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether two values are equal in a type."""
    if one is None or other is None:
        return False
    try:
        a, b = np.asarray(one).astype(dtype), np.asarray(other).astype(dtype)
    except (TypeError, ValueError, ConformError):
        return False
    return bool(np.array_equal(a, b, equal_nan=dtype.kind == "f"))


def _flat(ranges: Sequence[range], shape: Sequence[int]) -> Int64:
    """Return the numbers of cells in C order."""
    if not ranges:
        return np.zeros(1, np.int64)
    mesh = np.meshgrid(*(np.arange(r.start, r.stop) for r in ranges), indexing="ij")
    return np.asarray(np.ravel_multi_index([m.reshape(-1) for m in mesh], tuple(shape)), np.int64)


def _sorted(*columns: Sequence[Any]) -> tuple[Int64, list[Int64]]:
    """Return the order of cells, and the concatenated columns."""
    whole = [np.concatenate([np.empty(0, np.int64), *one]).astype(np.int64) for one in columns]
    return np.argsort(whole[0], kind="stable"), whole
