"""What one more step costs, by how many there are, and against xarray's own appending."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

import cfagg
from tests.benchmarks.table import Row, clock

#: How much more the last append may cost than the hundredth.
BAR = 1.5

SHAPE = (4, 8)


def rows(small: bool) -> list[Row]:
    """Return the cost of an append to a long series against that to a short one, and against xarray's."""
    runs = 5 if small else 41
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zarr.config.set({"array.rectilinear_chunks": True}):
            return [*_lengths(Path(folder), runs), *_edges(Path(folder), small, runs), *_against(Path(folder), runs)]


def _lengths(folder: Path, runs: int) -> list[Row]:
    found = []
    for kind in ("regular", "rectilinear", "regular, zstd", "rectilinear, zstd"):
        stores = [store_of(folder / f"{kind}{n}.zarr", n, kind) for n in (100, 100_000, 10_000_000)]
        first, *others = clock(*map(_step, stores), runs=runs, warm=3)
        for name, cost in zip(("10^5-th", "10^7-th"), others, strict=True):
            job = f"{name} append of one step, {kind}"
            found.append(Row(job, cost * 1e3, first * 1e3, "the 100th", first / cost, 1 / BAR, "ms"))
    return found


def _edges(folder: Path, small: bool, runs: int) -> list[Row]:
    """Edges that differ: what grows is the metadata, which are read and written, and the cost no more than they do."""
    count = 1000 if small else 100_000
    lengths = np.random.default_rng(0).integers(1, 100, count).tolist()
    few = store_of(folder / "few.zarr", sum(lengths[:100]), "rectilinear", lengths[:100])
    store = store_of(folder / "unequal.zarr", sum(lengths), "rectilinear", lengths)
    texts = [p.read_bytes() for p in store.rglob("zarr.json")]
    size, before = (sum(p.stat().st_size for p in s.rglob("zarr.json")) for s in (store, few))

    def floor() -> None:
        for text in texts:
            json.dumps(json.loads(text), indent=2).encode()

    cost, first, least = clock(_step(store), _step(few), floor, runs=3 if small else 7)
    bar = first * size / before
    job = f"an append of one step to {count:,} edges of any length"
    note = f"metadata of {size / 1e6:.2g} MB"
    return [
        Row(job, cost * 1e3, bar * 1e3, "one to 100 edges, as often as there are more metadata", bar / cost, 1.0, "ms"),
        Row(job, cost * 1e3, least * 1e3, "JSON read and written", least / cost, None, "ms", note),
    ]


def _against(folder: Path, runs: int) -> list[Row]:
    ours, theirs = (store_of(folder / f"{who}.zarr", 100, "regular") for who in ("ours", "theirs"))
    at = [100]

    def xarray() -> None:
        at[0] += 1
        variable = xr.Variable(("time", "lat", "lon"), np.zeros((1, *SHAPE), "f4"))
        step = xr.Dataset({"tas": variable}, {"time": ("time", [at[0]])})
        step.to_zarr(theirs, append_dim="time", consolidated=True)

    mine, other = clock(_step(ours), xarray, runs=min(runs, 11))
    return [Row("an append of one step", mine * 1e3, other * 1e3, "xarray's to_zarr", other / mine, None, "ms")]


def _step(store: Path) -> Callable[[], None]:
    """Return what appends one more step."""
    at = [int(json.loads((store / "time/zarr.json").read_bytes())["shape"][0])]

    def step() -> None:
        cfagg.append(store, {"tas": np.full((1, *SHAPE), at[0], "f4"), "time": np.array([at[0]])}, "time")
        at[0] += 1

    return step


def store_of(path: Path, count: int, kind: str, lengths: list[int] | None = None) -> Path:
    """Write a store whose metadata say that it has so many steps; only the last of its chunks are there."""
    group = zarr.create_group(path)
    codec: Any = "auto" if kind.endswith("zstd") else None
    for name, rest, dtype, chunk in (("tas", SHAPE, "f4", 8), ("time", (), "i8", 1024)):
        edges: Any = [[1, 1], *([n] for n in rest)] if kind.startswith("rectilinear") else (chunk, *rest)
        dims = ("time", "lat", "lon")[: 1 + len(rest)]
        group.create_array(name, shape=(2, *rest), chunks=edges, dtype=dtype, dimension_names=dims, compressors=codec)
    zarr.consolidate_metadata(path)
    runs: list[Any] = [[1, count]] if lengths is None else lengths
    for document in path.rglob("zarr.json"):
        whole = json.loads(document.read_bytes())
        held = whole.get("consolidated_metadata", {}).get("metadata", {})
        for one in [whole] if "shape" in whole else held.values():
            one["shape"][0] = count
            configuration = one["chunk_grid"]["configuration"]
            if "chunk_shapes" in configuration:
                configuration["chunk_shapes"][0] = runs
        document.write_text(json.dumps(whole, indent=2))
    cfagg.append(path, {"tas": np.zeros((1, *SHAPE), "f4"), "time": np.array([count])}, "time", any_order=True)
    return path
