"""A plain NumPy writer of accumulation groups: slow, whole arrays in memory, and short enough to be read as the format.

Tests compare what cfagg builds with what this writes, and query what this writes.
"""

from __future__ import annotations

import itertools
import json
import math
import shutil
import warnings
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
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
    objects = math.prod(len(e) - 1 for e in edges.values())
    _array(group, "chunk_stamps", np.zeros((objects, 5), "i8"), None, {})
    for d in accumulated:
        _array(group, f"boundary_{d}", samples(edges[d], stride.get(d, 1)), None, {})
    if w is not None:
        _array(group, "weights", np.asarray(weights, "f8"), weight_dims, {})
    group.attrs.update(
        {
            "_ACCUMULATION_GROUP": nested,
            "cfagg": {
                "version": 2,
                "source": {
                    "name": name,
                    "dims": list(dims),
                    "shape": list(raw.shape),
                    "chunks": [c if isinstance(c, int) else [[n, 1] for n in c] for c in chunks],
                    "dtype": raw.dtype.name,
                    "encoding": {},
                    "objects": objects,
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
                "related": [],
                "created_by": "reference",
                **({} if integer else {"magnitudes": _magnitudes(raw[valid], w)}),
            },
        }
    )
    seal(store, name)


def seal(store: Path, name: str, *, stamps: bool = True) -> None:
    """Write what a group says of its source's objects and of its own arrays anew, as they are now."""
    folder = Path(store) / f"{name}_accumulation_group"
    v3 = (folder / "zarr.json").exists()
    attributes = _attributes(folder, v3)
    own = attributes["cfagg"]
    if stamps:
        with zarr.config.set({"array.rectilinear_chunks": True}):
            source = zarr.open_array(Path(store) / name, mode="r")
        own["source"]["encoding"] = _encoding(Path(store) / name, v3)
        rows = [_stamp(Path(store) / name / key) for key in _object_keys(source)]
        own["source"]["objects"] = len(rows)
        shutil.rmtree(folder / own["stamps"])
        _array(zarr.open_group(folder, mode="r+"), own["stamps"], np.array(rows, "i8").reshape(-1, 5), None, {})
    shutil.rmtree(folder / "checksums", ignore_errors=True)
    places, crcs, listed = {}, [], {}
    for path in sorted(p for p in folder.iterdir() if (p / ("zarr.json" if v3 else ".zarray")).exists()):
        crc, chunks = _crcs(path, v3)
        if path.name == own["stamps"]:
            listed[path.name] = [crc, *chunks]
        else:
            places[path.name] = [len(crcs), len(chunks), crc]
            crcs += chunks
    _array(zarr.open_group(folder, mode="r+"), "checksums", np.array(crcs, "u4"), None, {})
    crc, chunks = _crcs(folder / "checksums", v3)
    listed["checksums"] = [crc, *chunks]
    own["checks"] = {"build": _BUILD, "array": "checksums", "places": places, "own": listed}
    seal_attributes(store, name, attributes)


def seal_attributes(store: Path, name: str, attributes: dict[str, Any]) -> None:
    """Write the attributes of a group with the checksum of themselves."""
    folder = Path(store) / f"{name}_accumulation_group"
    own = attributes["cfagg"]
    own.pop("crc", None)
    own["crc"] = _crc({"group": attributes.get("_ACCUMULATION_GROUP"), "cfagg": own})
    path = folder / ("zarr.json" if (folder / "zarr.json").exists() else ".zattrs")
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "attributes": attributes} if path.name == "zarr.json" else attributes))


_BUILD = "0123456789abcdef" * 2


def _attributes(folder: Path, v3: bool) -> dict[str, Any]:
    document = json.loads((folder / ("zarr.json" if v3 else ".zattrs")).read_text())
    return document["attributes"] if v3 else document


def _crc(value: Any) -> int:
    return google_crc32c.value(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def _crcs(path: Path, v3: bool) -> tuple[int, list[int]]:
    """Give an array the name of the build; return the CRC of its metadata, and those of its chunks in C order."""
    place = path / ("zarr.json" if v3 else ".zattrs")
    document = json.loads(place.read_text())
    attributes = document["attributes"] if v3 else document
    attributes["cfagg_build"] = _BUILD
    place.write_text(json.dumps(document))
    whole = json.loads((path / ("zarr.json" if v3 else ".zarray")).read_text())
    crc = _crc(
        {
            "document": {
                k: v for k, v in whole.items() if k not in ("attributes", "dimension_names", "consolidated_metadata")
            },
            "attributes": {k: attributes[k] for k in ("_ACCUMULATION_STRIDE", "cfagg_build") if k in attributes},
            "dims": attributes["_ARRAY_DIMENSIONS"],
        }
    )
    # Not by zarr-python, which takes its time over each of the hundreds of arrays that are sealed.
    pieces = whole["chunk_grid"]["configuration"]["chunk_shape"] if v3 else whole["chunks"]
    counts = [-(-n // c) for n, c in zip(whole["shape"], pieces, strict=True)]
    keys = [
        "/".join(map(str, ("c", *index))) if v3 else ".".join(map(str, index or (0,))) for index in np.ndindex(*counts)
    ]
    files = [path / key for key in keys]
    return crc, [google_crc32c.value(f.read_bytes()) if f.exists() else 0 for f in files]


def _encoding(folder: Path, v3: bool) -> dict[str, str]:
    """Return what decides how the bytes of the source are read."""
    document = json.loads((folder / ("zarr.json" if v3 else ".zarray")).read_text())
    names = ("zarr_format", "data_type", "dtype", "fill_value", "codecs", "compressor", "filters", "order")
    out = {k: json.dumps(document[k], sort_keys=True, separators=(",", ":")) for k in names if k in document}
    separator = document["chunk_key_encoding"]["configuration"]["separator"] if v3 else "."
    separator = document.get("dimension_separator", separator)
    return {**out, "chunk_keys": json.dumps(["c" if v3 else "", separator], separators=(",", ":"))}


def _object_keys(array: Any) -> list[str]:
    """Return the key of every stored object, in C order."""
    metadata = array.metadata
    encode = metadata.encode_chunk_key
    with zarr.config.set({"array.rectilinear_chunks": True}):
        counts = _counts(array)
    return [encode(index) for index in itertools.product(*map(range, counts))]


def _counts(array: Any) -> list[int]:
    if array.metadata.zarr_format == 3:
        grid = array.metadata.to_dict()["chunk_grid"]["configuration"]
        if "chunk_shape" in grid:
            return [-(-n // c) for n, c in zip(array.shape, grid["chunk_shape"], strict=True)]
        # By dimension one length, or lengths and runs of lengths.
        return [
            -(-n // edges) if isinstance(edges, int) else sum(1 if isinstance(e, int) else e[1] for e in edges)
            for n, edges in zip(array.shape, grid["chunk_shapes"], strict=True)
        ]
    return [-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True)]


def _stamp(path: Path) -> tuple[int, ...]:
    """Return size, times, inode and checksum of a file."""
    if not path.exists():
        return (-1, 0, 0, 0, 0)
    status, data = path.stat(), path.read_bytes()
    both = zlib.crc32(data) << 32 | google_crc32c.value(data)
    return (
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        both - 2**64 if both >= 2**63 else both,
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
        word = f"chunks_level{level}" if level else "chunks"
        _array(group, names[k], values, [f"{d}_{word}" if d in c else d for d in dims], {})
    return names


def _array(group: Any, name: str, values: np.ndarray, dims: Sequence[str] | None, attributes: dict[str, Any]) -> None:
    """Write an array of one plain chunk, without zarr-python, which takes its time over each of hundreds of them."""
    values, v3 = np.asarray(values), group.metadata.zarr_format == 3
    names = list(dims) if dims is not None else [f"{name}_{i}" for i in range(values.ndim)]
    folder = Path(group.store.root) / group.path / name
    shape, chunk = list(values.shape), [max(1, n) for n in values.shape]
    attributes = {"_ARRAY_DIMENSIONS": names, **attributes}
    document: dict[str, Any] = {"zarr_format": 3 if v3 else 2, "shape": shape, "fill_value": 0}
    if v3:
        document |= {
            "node_type": "array",
            "data_type": values.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "dimension_names": names,
            "attributes": attributes,
        }
        documents, key = {"zarr.json": document}, "/".join(["c", *"0" * values.ndim])
    else:
        document |= {"chunks": chunk, "dtype": values.dtype.str, "order": "C", "filters": None, "compressor": None}
        documents, key = {".zarray": document, ".zattrs": attributes}, ".".join("0" * values.ndim) or "0"
    (folder / key).parent.mkdir(parents=True)
    for file, content in documents.items():
        (folder / file).write_text(json.dumps(content))
    if values.size:
        (folder / key).write_bytes(np.ascontiguousarray(values).tobytes())


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
