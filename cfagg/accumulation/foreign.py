"""Accumulation groups of other writers, which follow only the convention, such as NASA's published generator.

Such a group does not record which cells it counted, its weights, or the data it belongs to.  Only those parts are used
that a few chunks of the data confirm (`foreign_check`), and known errors are reported.  The generator departs from the
convention in these points:

- it drops the part of a dimension after the last whole stride of whole chunks; that part is read from the data;
- it counts all values not below the array's fill value, including the fill value itself, and lets NaN into its sums;
- it stores sums in the dtype of the data, and some of them as differences with a filter of its own (`foreign_check`);
- along time, the first sum always covers two chunks, whatever the stride;
- it names the array's dimensions in the group only.

Source: ``nasa/zarr-accumulation-generation`` as published in 2023; its format was determined by reading and running it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cfagg.accumulation.description import names_none
from cfagg.accumulation.foreign_check import Terms, check_sums, find_latitude, has_deltas, holds, undo_deltas
from cfagg.accumulation.group import CellWeights, Group, Samples, command, stored_type
from cfagg.accumulation.integrity import find, parsed
from cfagg.accumulation.layout import Sums
from cfagg.accumulation.source import Meaning, beside, read_meaning
from cfagg.accumulation.weights import find_weights
from cfagg.conventions import limits
from cfagg.conventions.accumulation import Combinations, Names, parse_group
from cfagg.conventions.accumulation_model import Dims, Table, sample_positions
from cfagg.conventions.accumulation_record import MaskRecord
from cfagg.conventions.accumulation_schema import KEY
from cfagg.display.sizes import size_text
from cfagg.errors import ConventionError, LimitError, NotAccumulatedError, OptionError, Problem, UnsupportedError
from cfagg.formats.zarr.documents import is_there, node_folder
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.stamps import stamps

__all__ = ["open_foreign"]

_UNSURE = (
    "it was not written by cfagg: a few chunks agree with the data, but whether all of its sums belong to the data as "
    "they are now cannot be checked"
)

#: Largest array, in bytes, that is read whole if its masks cannot be distinguished otherwise.
_SCANNED = 2**28


def open_foreign(
    source: ZarrArray, path: str, attributes: Mapping[str, Any], identity: tuple[int, ...], given: Any = None
) -> Group:
    """Return the usable parts of an accumulation group that another program wrote."""
    where = f"{source.store}: group {path!r}"
    source = _with_dims(source, attributes)
    combinations = parse_group(attributes, source.dims, source=where)
    if max(source.grid.matrix_shape, default=0) > limits.MAX_PARTITIONS:
        raise LimitError(f"{where}: more than {limits.MAX_PARTITIONS} chunks along a dimension")
    meaning = read_meaning(source)
    problems: list[Problem] = []
    weighted = any(names.weighted for names in combinations.values())
    found = {}
    for combination, names in combinations.items():
        sums = read_stored_sums(source, meaning.dtype, path, combination, names, weighted, problems)
        if sums is not None:
            found[combination] = sums
    if given is not None and not weighted:
        raise OptionError(f"{where} holds unweighted sums; leave out weights=")
    generated = any(has_deltas(s.arrays.data) for s in found.values()) or _has_leftovers(source, path, combinations)
    weights: CellWeights | None = None
    trial = _Trial(meaning.mask)
    for weights in _candidates(source, given) if weighted else (None,):
        trial = _confirm(source, found, meaning, weights, generated)
        if not trial.other_weights:
            break
    mask, samples = trial.mask, trial.samples
    problems += trial.problems
    remarks = [*_remarks(source, mask, meaning, weights, generated), *_roundings(source, found, samples)]
    if samples and newest(source) > max(newest(found[c].arrays.data) for c in samples):
        remarks.insert(0, "some data were written after the sums")
    bare = [c for c in samples if found[c].arrays.weights is None]
    if bare and (why := _may_lack_any(source, meaning, mask)):
        problems += [Problem("+".join(c), f"sums of the data without _WEIGHTS, {why}") for c in bare]
        samples = {c: places for c, places in samples.items() if c not in bare}
        bare = []
    if samples and mask != meaning.mask and (counted := _counts_missing(source, meaning, mask)):
        problems.append(Problem("missing values", counted))
        samples = {}
    if not samples:
        raise NotAccumulatedError(
            f"{source.store}: the accumulation of {source.path!r} was not written by cfagg and cannot be used; build "
            f"one with: {command(source.store, source.path, '--overwrite')}",
            problems,
        )
    remarks += [f"left out: {p}" for p in problems]
    packing = meaning.packing
    kinds = {a.dtype.kind for c in samples for a in (found[c].arrays.data, found[c].arrays.weights) if a is not None}
    return Group(
        store=source.store,
        variable=source.path,
        folder=node_folder(source.store, path),
        source=source,
        dims=source.dims,
        sums=Table({c: found[c].arrays for c in samples}),
        samples=Table(samples),
        statistics=Table(),
        scale=1.0 if packing is None else float(packing.scale_factor),
        offset=0.0 if packing is None else float(packing.add_offset),
        dtype=meaning.dtype,
        mask=mask,
        weights=weights,
        kind="int64" if kinds <= set("iu") else "float64",
        complete=bool(bare),
        extra=None,
        stamps=None,
        foreign="; ".join([_UNSURE, *remarks]),
        identity=identity,
    )


def _with_dims(source: ZarrArray, attributes: Mapping[str, Any]) -> ZarrArray:
    """Return the array with dimensions named in the order of the group's list, if the array itself has no names."""
    if not names_none(source):
        return source
    tree = attributes.get(KEY)
    names = tuple(tree) if isinstance(tree, Mapping) else ()
    if len(names) != source.ndim or set(names) & set(source.dims):
        return source
    for name, length in zip(names, source.shape, strict=True):
        coordinate = beside(source, name)
        if coordinate is not None and coordinate.shape != (length,):
            raise ConventionError(
                f"{source.store}: {source.path!r} does not name its dimensions, and those of its accumulation, "
                f"{list(names)}, do not fit its shape {source.shape}: {name!r} has shape {coordinate.shape}; add "
                "_ARRAY_DIMENSIONS to the array"
            )
    return replace(source, dims=names)


def _has_leftovers(source: ZarrArray, path: str, combinations: Combinations) -> bool:
    """Return whether the group contains temporary arrays that only NASA's generator leaves behind."""
    folder = node_folder(source.store, path)
    return any(is_there(f"{folder}/{name}_temp", ".zarray", source.store) for name in combinations.arrays)


def _candidates(source: ZarrArray, given: Any) -> tuple[CellWeights, ...]:
    """Return the weights with which the sums may have been computed, likeliest first."""
    if given is not None:
        found = find_weights(source, given, _SCANNED)
        return (CellWeights(found.axes, given=found.values),) if found is not None else ()
    latitude = find_latitude(source)
    unknown = CellWeights(tuple(range(source.ndim)), where=f"{source.store}: {source.path!r}")
    return (unknown,) if latitude is None else (latitude, unknown)


@dataclass(frozen=True)
class StoredSums:
    """The well-formed sums of one combination, and the possible positions of its samples, likeliest first."""

    arrays: Sums[ZarrArray]
    places: tuple[Samples, ...]


def read_stored_sums(
    source: ZarrArray,
    dtype: np.dtype[Any],
    path: str,
    combination: Dims,
    names: Names,
    weighted: bool,
    problems: list[Problem],
) -> StoredSums | None:
    """Return the arrays and possible sample positions of one combination of data read as `dtype`, or note problems."""
    label = "+".join(combination)
    data_name = names.weighted if weighted else names.unweighted
    if data_name is None or (names.weights is None and weighted):
        kinds = f"{'_DATA_WEIGHTED' if weighted else '_DATA_UNWEIGHTED'} and _WEIGHTS"
        problems.append(Problem(label, f"expected {kinds}, found {' and '.join(names.as_dict())}"))
        return None
    opened = [_open(source, path, combination, n, problems) for n in (data_name, names.weights) if n is not None]
    found = [pair for pair in opened if pair is not None]
    if len(found) < len(opened):
        return None
    (data, stride), counts = found[0], found[1][0] if len(found) > 1 else None
    before = len(problems)
    if counts is not None and (data.dims, data.shape, stride) != (counts.dims, counts.shape, found[1][1]):
        what = f"dimensions {counts.dims}, shape {counts.shape} and strides {found[1][1]}"
        expected = f"{data.dims}, {data.shape} and {stride} like {data_name!r}"
        problems.append(Problem(counts.name, f"{what}, not {expected}"))
    # Sums of weights may be integers if these hardly overflow.
    elif weighted and (
        data.dtype.kind != "f" or (counts is not None and counts.dtype.kind != "f" and counts.dtype.itemsize < 8)
    ):
        whole = next(a.dtype.name for a, _ in found if a.dtype.kind != "f")
        problems.append(Problem(label, f"weighted sums that were truncated to whole numbers ({whole}) are of no use"))
    else:
        # Sums of real numbers need no check, since their range is not limited.
        info = None if dtype.kind == "f" else np.iinfo(dtype)
        least, most = (0, 0) if info is None else (int(info.min), int(info.max))
        for (array, _), low, high in zip(found, (least, 0), (most, 1), strict=False):
            size = None if array.dtype.kind == "f" else np.iinfo(array.dtype)
            if size is not None and not (size.min <= low * source.size and high * source.size <= size.max):
                message = f"sums may exceed {array.dtype.name}, and an overflow could not be detected"
                problems.append(Problem(array.name, message))
                return None
    if len(problems) > before:
        return None
    axes = tuple(source.dims.index(d) for d in data.dims)
    places = _places(source, axes, data, stride, problems)
    for array, _ in found if places is not None else ():
        if absent := int((stamps(array)[:, 0] < 0).sum()):
            are = "is" if absent == 1 else "are"
            message = f"{absent} of {array.objects.size} chunks {are} absent: never written, or zeros"
            problems.append(Problem(array.name, message))
    if places is None or len(problems) > before:
        return None
    kept = {"data": data} | ({} if counts is None else {"weights" if weighted else "counts": counts})
    return StoredSums(Sums(axes, kept), places)


def _open(
    source: ZarrArray, path: str, combination: Dims, name: str, problems: list[Problem]
) -> tuple[ZarrArray, tuple[int, ...]] | None:
    """Return an array of sums that fits the group, and its strides, or note why it does not fit."""
    array = find(source, path, name, problems)
    attributes = None if array is None else parsed(array, source.dims, combination, problems)
    if array is None or attributes is None:
        return None
    try:
        array = undo_deltas(array)
    except UnsupportedError as error:
        problems.append(Problem(name, str(error)))
        return None
    if array.dtype.kind not in "iuf":
        problems.append(Problem(name, f"expected numbers, found {array.dtype.name}"))
        return None
    return array, attributes.stride


def _places(
    source: ZarrArray, axes: tuple[int, ...], data: ZarrArray, strides: tuple[int, ...], problems: list[Problem]
) -> tuple[Samples, ...] | None:
    """Return sample positions by the convention and as the generator writes them, or note a wrong shape."""
    before = len(problems)
    regular: list[Any] = [None] * source.ndim
    early: list[Any] = [None] * source.ndim
    for axis, size, stride in zip(axes, data.shape, strides, strict=True):
        length, dim = source.shape[axis], source.dims[axis]
        if not stride:
            if size != length:
                problems.append(Problem(data.name, f"expected size {length} along {dim!r}, found {size}"))
            continue
        whole = sample_positions(source.grid.axes[axis], length, stride)
        edges = source.grid.edges[axis]  # `open_foreign` has checked that there are not too many
        # Partial chunks and strides at the end of the array may have been dropped.
        fewest = (int(np.searchsorted(edges, length, side="right")) - 1) // stride
        if not max(fewest, 1) <= size <= len(whole):
            expected = f"{fewest} to {len(whole)}" if fewest < len(whole) else str(fewest)
            problems.append(Problem(data.name, f"expected {expected} samples along {dim!r}, found {size}"))
            continue
        regular[axis] = whole[:size]
        # The first sample covers two chunks, each following one another stride.
        index = 2 + stride * np.arange(size)
        if index[-1] < len(edges) and stride > 2:
            early[axis] = np.minimum(edges[index], length)
        else:
            early[axis] = whole[:size]
    if len(problems) > before:
        return None
    differ = any(a is not None and not np.array_equal(a, b) for a, b in zip(early, regular, strict=True))
    return (tuple(regular), tuple(early)) if differ else (tuple(regular),)


def newest(array: ZarrArray) -> int:
    """Return the time at which the newest stored object of an array was written, in nanoseconds."""
    return int(stamps(array)[:, 1].max(initial=0))


@dataclass(frozen=True)
class _Trial:
    """The result of comparing sums with the data: sample positions by combination, and errors of unconfirmed sums."""

    mask: MaskRecord
    samples: dict[Dims, Samples] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    #: Whether sums of weights contradict the weights.
    other_weights: bool = False


def _confirm(
    source: ZarrArray, found: Mapping[Dims, StoredSums], meaning: Meaning, weights: CellWeights | None, generated: bool
) -> _Trial:
    """Return the mask that the data confirm, and for each combination the sample positions under it."""
    masks = [] if generated else [meaning.mask]
    if source.fill_declared and np.isfinite(source.fill_value):
        masks.append(MaskRecord(valid_min=source.fill_value, unsigned=meaning.mask.unsigned))
    best = _Trial(meaning.mask)
    for mask in dict.fromkeys(masks or [meaning.mask]):
        terms = Terms(meaning.dtype, mask, weights)
        confirmed: dict[Dims, Samples] = {}
        wrong = []
        contradicted = other_weights = False
        for combination, sums in found.items():
            reasons = []
            for places in sums.places:
                reason = check_sums(source, sums.arrays, places, terms)
                if reason is None:
                    confirmed[combination] = places
                    break
                reasons.append(reason)
            else:
                wrong.append(Problem("+".join(combination), reasons[0].message))
                contradicted |= reasons[0].of_data
                other_weights |= reasons[0].of_weights
        if len(confirmed) > len(best.samples) or not best.problems:
            # Sums that contradict the data show that the data were rewritten, or all counted in another way.
            best = _Trial(mask, {} if contradicted else confirmed, wrong, other_weights)
        if not wrong:
            break
    return best


def _counts_missing(source: ZarrArray, meaning: Meaning, counted: MaskRecord) -> str | None:
    """Return the error if cells that the array declares missing were counted as "not below the fill value"."""
    declared = meaning.mask
    fill = source.fill_value
    if fill == 0:
        # Zarr's default, which nobody chose as a missing value.
        declared = replace(declared, fills=tuple(f for f in declared.fills if f != 0))
    marks = [f for f in declared.fills if f >= fill]
    bounded = declared.valid_max is not None or (declared.valid_min is not None and declared.valid_min > fill)
    if not marks and not bounded:
        return None
    what = f"{', '.join(map(str, marks))} mean{'s' if len(marks) == 1 else ''} missing" if marks else "the valid range"
    if source.size * source.dtype.itemsize <= _SCANNED:
        if not holds(source, meaning.dtype, counted, declared):
            return None
        return f"cells that are missing were counted as data ({what})"
    return (
        f"every cell not below the fill value {fill} was counted as data, even if missing ({what}); the array of "
        f"{size_text(source.size * source.dtype.itemsize)} is too large to look for such cells"
    )


def _may_lack_any(source: ZarrArray, meaning: Meaning, mask: MaskRecord) -> str | None:
    """Return why values may be missing (sums without counts then give no means), or `None` if none can be."""
    if source.dtype.kind in "biu" and mask == MaskRecord(unsigned=mask.unsigned):
        return None
    if source.size * source.dtype.itemsize > _SCANNED:
        size = source.size * source.dtype.itemsize / 2**30
        return f"and the array of {size:.1f} GiB is too large to look for missing values"
    return "and values are missing" if holds(source, meaning.dtype, None, mask) else None


def _remarks(
    source: ZarrArray, mask: MaskRecord, meaning: Meaning, weights: CellWeights | None, generated: bool
) -> list[str]:
    """Return remarks for users about how values were counted."""
    out = ["it seems to have been written by NASA's generator"] if generated else []
    if weights is not None and weights.latitude is not None:
        out.append(f"weights are taken to be the cosine of {weights.latitude!r}")
    elif weights is not None and not weights.known:
        out.append("its weights are unknown, so only ranges that begin and end at samples are answered")
    if mask != meaning.mask:
        out.append(f"values of {source.fill_value} and above count as data, lower ones and NaN as missing")
    return out


def _roundings(source: ZarrArray, found: Mapping[Dims, StoredSums], samples: Mapping[Dims, Samples]) -> list[str]:
    """Return remarks on how the precision and positions of the samples limit results."""
    out = []
    worst: dict[str, float] = {}
    for combination, places in samples.items():
        label = "+".join(combination)
        arrays = found[combination].arrays
        if places is not found[combination].places[0]:
            out.append(f"the first sum along {label} is over two chunks, whatever the stride")
        for d, positions in zip(source.dims, places, strict=True):
            length = source.shape[source.dims.index(d)]
            if positions is not None and positions[-1] < length:
                out.append(
                    f"the last {length - int(positions[-1])} positions of {d!r} are not in the sums along {label}"
                )
        count = max(len(p) for p in places if p is not None)
        for array in (arrays.data, arrays.weights):
            stored = np.dtype("f8") if array is None else stored_type(array)
            if stored.kind == "f" and stored.itemsize < 8:
                worst[stored.name] = max(worst.get(stored.name, 0.0), 2 * count * float(np.finfo(stored).eps))
    out += [
        f"sums are kept as {name}: a mean over one stride may be off by {part:.1g} of the mean over all"
        for name, part in worst.items()
    ]
    return out
