"""A plain NumPy writer of accumulation groups: slow, whole arrays in memory, and short enough to be read as the format.

Tests compare what cfagg builds with what this writes, and query what this writes.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr

_STATISTICS = ("count", "min", "max", "sum", "m2")


def write_source(
    store: Path,
    name: str,
    raw: np.ndarray,
    dims: Sequence[str],
    chunks: Sequence[int] | Sequence[Sequence[int]],
    *,
    zarr_format: int = 3,
    attributes: Mapping[str, Any] | None = None,
    compressors: Any = "auto",
    fill_value: Any = None,
    coordinates: bool = True,
) -> None:
    """Write an array, and index coordinates for its dimensions, into a store that may exist."""
    with zarr.config.set({"array.rectilinear_chunks": True}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = zarr.open_group(store, mode="a", zarr_format=zarr_format)
        sizes = [tuple(c) if not isinstance(c, int) else c for c in chunks]
        _create(root, name, raw, sizes, dims, dict(attributes or {}), compressors, fill_value)
        for d, n in zip(dims, raw.shape, strict=True):
            if coordinates and d not in root:
                _create(root, d, np.arange(n, dtype="f8"), [max(1, n)], [d], {}, "auto", None)


def chunk_edges(length: int, chunk: int | Sequence[int]) -> np.ndarray:
    """Return the edges of the chunks along one dimension, cut at its end."""
    if isinstance(chunk, int):
        return np.append(np.arange(0, length, chunk), length).astype("i8")
    return np.concatenate([[0], np.cumsum(chunk)]).astype("i8")


def valid_cells(raw: np.ndarray, fills: Sequence[float] = (), low: Any = None, high: Any = None) -> np.ndarray:
    """Return where values count."""
    valid = np.isfinite(raw) if raw.dtype.kind == "f" else np.ones(raw.shape, bool)
    for fill in fills:
        valid &= raw != np.asarray(fill, raw.dtype)
    if low is not None:
        valid &= raw >= low
    if high is not None:
        valid &= raw <= high
    return valid


def write_group(
    store: Path,
    name: str,
    raw: np.ndarray,
    dims: Sequence[str],
    chunks: Sequence[int] | Sequence[Sequence[int]],
    combinations: Sequence[Sequence[str]],
    *,
    stride: Mapping[str, int] | None = None,
    weights: np.ndarray | None = None,
    weight_dims: Sequence[str] = (),
    fills: Sequence[float] = (),
    valid_min: Any = None,
    valid_max: Any = None,
    packing: tuple[float, float] | None = None,
    statistics: Sequence[Sequence[str]] = (),
    zarr_format: int = 3,
) -> None:
    """Write the accumulation group of an array that `write_source` wrote with the same values and chunks."""
    dims = tuple(dims)
    stride = dict(stride or {})
    edges = {d: chunk_edges(n, c) for d, n, c in zip(dims, raw.shape, chunks, strict=True)}
    valid = valid_cells(raw, fills, valid_min, valid_max)
    integer = raw.dtype.kind in "iu" and weights is None
    values = np.where(valid, raw, raw.dtype.type(0)).astype("i8" if integer else "f8")
    w = None
    if weights is not None:
        shape = [raw.shape[dims.index(d)] if d in weight_dims else 1 for d in dims]
        w = np.broadcast_to(np.asarray(weights, "f8").reshape(shape), raw.shape)
        values = values * w
    counted = valid.astype("i8") if w is None else np.where(valid, w, 0.0)
    complete = bool(valid.all())
    group = zarr.open_group(store, mode="a", zarr_format=zarr_format, path=f"{name}_accumulation_group")
    used = [tuple(d for d in dims if d in c) for c in combinations]
    accumulated = [d for d in dims if any(d in c for c in used)]
    nested: dict[str, Any] = {}
    counts = []
    for n in range(1, len(dims) + 1):
        for c in itertools.combinations(dims, n):
            place = nested
            for d in c:
                place = place.setdefault(d, {})
    for c in used:
        place = nested
        for d in c:
            place = place[d]
        label = "_".join(c)
        steps = [stride.get(d, 1) if d in c else 0 for d in dims]
        _array(group, f"acc_{label}", _sampled(values, dims, c, edges, stride), dims, {"_ACCUMULATION_STRIDE": steps})
        _array(
            group, f"acc_wt_{label}", _sampled(counted, dims, c, edges, stride), dims, {"_ACCUMULATION_STRIDE": steps}
        )
        place["_DATA_UNWEIGHTED" if w is None else "_DATA_WEIGHTED"] = f"acc_{label}"
        place["_WEIGHTS"] = f"acc_wt_{label}"
        if w is not None and not complete:
            cells = _sampled(valid.astype("i8"), dims, c, edges, stride)
            _array(group, f"cnt_{label}", cells, dims, {"_ACCUMULATION_STRIDE": steps})
            counts.append({"dims": list(c), "array": f"cnt_{label}"})
    listed = []
    for c in dict.fromkeys([dims, *(tuple(d for d in dims if d in s) for s in statistics)]):
        level = 0
        while True:
            listed.append(_statistics(group, raw, valid, w, dims, c, edges, level))
            if max(math.ceil((len(edges[d]) - 1) / 8**level) for d in c) <= 1:
                break
            level += 1
    stamps = object_stamps(store, name, [len(e) - 1 for e in edges.values()], zarr_format)
    _array(group, "chunk_stamps", stamps, None, {})
    for d in accumulated:
        _array(group, f"boundary_{d}", samples(edges[d], stride.get(d, 1)), None, {})
    if w is not None:
        _array(group, "weights", np.asarray(weights, "f8"), weight_dims, {})
    group.attrs.update(
        {
            "_ACCUMULATION_GROUP": nested,
            "cfagg": {
                "version": 1,
                "source": {
                    "name": name,
                    "dims": list(dims),
                    "shape": list(raw.shape),
                    "chunks": [c if isinstance(c, int) else [[n, 1] for n in c] for c in chunks],
                    "dtype": raw.dtype.name,
                    "token": hashlib.blake2b(stamps.astype("<i8").tobytes(), digest_size=16).hexdigest(),
                },
                "packing": packing and {"scale_factor": packing[0], "add_offset": packing[1]},
                "mask": {"fills": list(fills), "valid_min": valid_min, "valid_max": valid_max, "unsigned": False},
                "weights": None
                if w is None
                else {"kind": "array", "name": None, "array": "weights", "dims": list(weight_dims)},
                "sums": "int64" if integer else "float64",
                "stride": {d: stride.get(d, 1) for d in accumulated},
                "excluded": {
                    "missing": int((~valid).sum()),
                    "nonfinite": int(np.isinf(raw).sum()) if raw.dtype.kind == "f" else 0,
                },
                "low": {},
                "counts": counts,
                "statistics": listed,
                "stamps": "chunk_stamps",
                "boundaries": {d: f"boundary_{d}" for d in accumulated},
                "created_by": "reference",
                **({} if integer else {"magnitudes": _magnitudes(raw[valid], w)}),
            },
        }
    )


def _magnitudes(cells: np.ndarray, w: np.ndarray | None) -> dict[str, float]:
    """Return how large the values are, the small ones by all cells together."""
    size = np.sort(np.abs(cells.astype("f8")))
    some = size[size > 0]
    return {
        "small": float(some[len(some) // 20]) if len(some) else 0.0,
        "largest": float(size.max(initial=0.0)),
        "heaviest": 1.0 if w is None else float(w.max(initial=0.0)),
    }


def samples(edges: np.ndarray, stride: int) -> np.ndarray:
    """Return the positions up to which sums are stored."""
    last = edges[-1]
    return np.array([min(edges[min(k + stride, len(edges) - 1)], last) for k in range(0, len(edges) - 1, stride)], "i8")


def _sampled(
    values: np.ndarray,
    dims: Sequence[str],
    c: Sequence[str],
    edges: Mapping[str, np.ndarray],
    stride: Mapping[str, int],
) -> np.ndarray:
    for d in c:
        axis = dims.index(d)
        values = np.take(np.cumsum(values, axis), samples(edges[d], stride.get(d, 1)) - 1, axis)
    return values


def _statistics(
    group: Any,
    raw: np.ndarray,
    valid: np.ndarray,
    w: np.ndarray | None,
    dims: Sequence[str],
    c: Sequence[str],
    edges: Mapping[str, np.ndarray],
    level: int,
) -> dict[str, Any]:
    """Write the statistics per chunk, or per 8**level chunks, of one combination."""
    cuts = [edges[d][:: 8**level] if d in c else np.arange(n) for d, n in zip(dims, raw.shape, strict=True)]
    cuts = [k[:-1] if d in c and k[-1] == edges[d][-1] else k for d, k in zip(dims, cuts, strict=True)]
    shape = tuple(len(k) for k in cuts)
    kinds = {
        "count": "i8",
        "min": raw.dtype,
        "max": raw.dtype,
        "sum": "i8" if raw.dtype.kind in "iu" and w is None else "f8",
        "m2": "f8",
    }
    if w is not None:
        kinds["weights"] = "f8"
    out = {k: np.zeros(shape, t) for k, t in kinds.items()}
    for index in np.ndindex(shape):
        box = tuple(
            slice(k[i], (k[i + 1] if i + 1 < len(k) else n) if d in c else k[i] + 1)
            for d, k, i, n in zip(dims, cuts, index, raw.shape, strict=True)
        )
        x = raw[box][valid[box]]
        out["count"][index] = x.size
        if not x.size:
            continue
        out["min"][index], out["max"][index] = x.min(), x.max()
        wide = x.astype(out["sum"].dtype)
        if w is None:
            out["sum"][index] = wide.sum()
            out["m2"][index] = ((x - x.astype("f8").mean()) ** 2).sum()
        else:
            v = w[box][valid[box]]
            out["weights"][index], out["sum"][index] = v.sum(), (v * x).sum()
            mean = (v * x).sum() / v.sum() if v.sum() else 0.0
            out["m2"][index] = (v * (x - mean) ** 2).sum()
    names: dict[str, Any] = {"dims": list(c), "level": level}
    for k, values in out.items():
        stem = "w" if k == "weights" else k
        names[k] = f"{stem}_{'_'.join(c)}" + (f"_level{level}" if level else "")
        _array(group, names[k], values, dims, {})
    return names


def object_stamps(store: Path, name: str, counts: Sequence[int], zarr_format: int) -> np.ndarray:
    """Return size and time of every stored object, in C order."""
    out = []
    separator = "/" if zarr_format == 3 else "."
    for index in itertools.product(*(range(n) for n in counts)):
        parts = [str(i) for i in index]
        key = separator.join(["c", *parts]) if zarr_format == 3 else separator.join(parts or ["0"])
        path = Path(store) / name / key
        status = os.stat(path) if path.exists() else None  # noqa: PTH116
        out.append((-1, 0) if status is None else (status.st_size, status.st_mtime_ns))
    return np.array(out, "i8").reshape(-1, 2)


def _array(group: Any, name: str, values: np.ndarray, dims: Sequence[str] | None, attributes: dict[str, Any]) -> None:
    names = list(dims) if dims is not None else [f"{name}_{i}" for i in range(values.ndim)]
    _create(group, name, np.asarray(values), [max(1, n) for n in values.shape], names, attributes, "auto", None)


def _create(
    group: Any,
    name: str,
    values: np.ndarray,
    chunks: Sequence[Any],
    dims: Sequence[str],
    attributes: dict[str, Any],
    compressors: Any,
    fill_value: Any,
) -> None:
    v3 = group.metadata.zarr_format == 3
    array = group.create_array(
        name,
        shape=values.shape,
        dtype=values.dtype,
        chunks=tuple(chunks) or "auto",
        compressors=compressors,
        fill_value=fill_value if fill_value is not None else 0,
        dimension_names=list(dims) if v3 else None,
        attributes={"_ARRAY_DIMENSIONS": list(dims), **attributes},
        config={"write_empty_chunks": True},
    )
    array[...] = values
