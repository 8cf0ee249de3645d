"""A plain writer of Zarr v2 stores in the form in which NASA's published generator leaves them, mistakes included."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np

DIMS = ("latitude", "longitude", "time")

#: Per combination the names of its arrays and the order of their dimensions.
LAYOUT: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {
    ("latitude",): ("lat", ("latitude", "time", "longitude")),
    ("longitude",): ("lon", ("longitude", "time", "latitude")),
    ("time",): ("time", ("latitude", "time", "longitude")),
    ("latitude", "longitude"): ("lat_lon", ("latitude", "longitude", "time")),
}


def write_array(
    folder: Path,
    values: np.ndarray,
    chunks: Sequence[int],
    *,
    fill: Any = 0.0,
    attributes: Mapping[str, Any] | None = None,
    delta_axis: int | None = None,
    order: Sequence[int] = (),
    valid: Sequence[slice] | None = None,
    extra_filters: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write an array of Zarr v2 chunk by chunk, through the filter where an axis of differences is given.

    Chunks that begin beyond `valid` are not written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    codec = numcodecs.Blosc("zstd", 5)
    filters = [dict(f) for f in extra_filters]
    if delta_axis is not None:
        spec = {"accumulation_dimension": [order[delta_axis]], "accumulation_stride": [2]}
        filters.append({"id": "accumulation_delta_filter", **spec, "accumulation_dim_order_idx": list(order)})
    document = {
        "zarr_format": 2,
        "shape": list(values.shape),
        "chunks": list(chunks),
        "dtype": values.dtype.str,
        "fill_value": fill,
        "order": "C",
        "filters": filters or None,
        "compressor": codec.get_config(),
    }
    (folder / ".zarray").write_text(json.dumps(document))
    if attributes is not None:
        (folder / ".zattrs").write_text(json.dumps(attributes))
    for index in np.ndindex(*(-(-n // c) for n, c in zip(values.shape, chunks, strict=True))):
        start = [i * c for i, c in zip(index, chunks, strict=True)]
        if valid is not None and any(a >= s.stop for a, s in zip(start, valid, strict=True)):
            continue
        part = values[tuple(slice(a, a + c) for a, c in zip(start, chunks, strict=True))]
        chunk = np.full(chunks, 0 if fill is None else fill, values.dtype)
        chunk[tuple(map(slice, part.shape))] = part
        if delta_axis is not None:
            before = np.roll(chunk, 1, delta_axis)
            before[tuple(0 if d == delta_axis else slice(None) for d in range(chunk.ndim))] = 0
            chunk = chunk - before
        (folder / ".".join(map(str, index))).write_bytes(codec.encode(np.ascontiguousarray(chunk)))


def generate(
    store: Path,
    values: np.ndarray,
    chunks: Sequence[int],
    *,
    fill: Any = 0.0,
    strides: Mapping[str, int] | None = None,
    latitude: np.ndarray | None = None,
    attributes: Mapping[str, Any] | None = None,
    weights: np.ndarray | None = None,
    sums: str | None = None,
) -> None:
    """Write an array ``variable`` over (latitude, longitude, time) and its accumulation as the generator has them."""
    strides = dict.fromkeys(DIMS, 2) | dict(strides or {})
    latitude = np.linspace(-80.0, 80.0, values.shape[0]) if latitude is None else latitude
    store.mkdir(parents=True)
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    write_array(store / "variable", values, chunks, fill=fill, attributes=attributes)
    write_array(store / "latitude", latitude, latitude.shape)
    for name, n in zip(DIMS[1:], values.shape[1:], strict=True):
        write_array(store / name, np.arange(float(n)), (n,))
    group = store / "variable_accumulation_group"
    group.mkdir()
    (group / ".zgroup").write_text('{"zarr_format": 2}')
    counted = values >= fill
    w = np.cos(np.deg2rad(latitude)) if weights is None else weights
    w = counted * w[:, None, None]
    data = values.astype("f8") * w
    tree: dict[str, Any] = {"latitude": {"longitude": {"time": {}}, "time": {}}, "longitude": {"time": {}}, "time": {}}
    whole = values.shape[2] // chunks[2] * chunks[2]
    for combination, (label, order) in LAYOUT.items():
        node = tree
        for d in combination:
            node = node[d]
        node |= {"_DATA_WEIGHTED": f"acc_{label}", "_WEIGHTS": f"acc_wt_{label}"}
        for name, field in ((f"acc_{label}", data), (f"acc_wt_{label}", w)):
            sampled = _sample(field[:, :, :whole], combination, chunks, strides)
            axes = tuple(map(DIMS.index, order))
            stored = np.zeros([sampled.shape[d] if DIMS[d] in combination else values.shape[d] for d in axes])
            stored[tuple(map(slice, sampled.transpose(axes).shape))] = sampled.transpose(axes)
            along = [n if d in combination else chunks[DIMS.index(d)] for d, n in zip(order, stored.shape, strict=True)]
            # The tail of time is never computed where time stays.
            valid = [slice(n) for n in stored.shape]
            if "time" not in combination:
                valid[order.index("time")] = slice(whole)
            delta = order.index(combination[0]) if combination in (("latitude",), ("longitude",)) else None
            write_array(
                group / name,
                stored.astype(sums or values.dtype),
                along,
                attributes={
                    "_ARRAY_DIMENSIONS": list(order),
                    "_ACCUMULATION_STRIDE": [strides[d] if d in combination else 0 for d in order],
                },
                delta_axis=delta if name == f"acc_{label}" else None,
                order=axes,
                valid=valid,
            )
    (group / ".zattrs").write_text(json.dumps({"_ACCUMULATION_GROUP": tree}))


def _sample(
    field: np.ndarray, combination: Sequence[str], chunks: Sequence[int], strides: Mapping[str, int]
) -> np.ndarray:
    """Cumulative sums at the generator's samples: along time the first one is always over two chunks."""
    for d in combination:
        axis = DIMS.index(d)
        sums = np.cumsum(field, axis)
        count = field.shape[axis] // chunks[axis] // strides[d]
        step = chunks[axis] * strides[d]
        first = 2 * chunks[axis] if d == "time" else step
        field = np.take(sums, [first + k * step - 1 for k in range(count)], axis)
    return field


Box = tuple[tuple[slice, ...], tuple[int, ...]]


def boxes(rng: np.random.Generator, shape: Sequence[int], count: int) -> list[Box]:
    """Random boxes, each with axes to reduce: every set of axes comes up."""
    sets = [c for n in range(1, len(shape) + 1) for c in itertools.combinations(range(len(shape)), n)]
    out = []
    for k in range(count):
        ends = [sorted(rng.integers(0, n + 1, 2).tolist()) for n in shape]
        out.append((tuple(slice(a, b) for a, b in ends), sets[k % len(sets)]))
    return out
