"""Many Zarr stores as one: chunks copied as they are, against reading, rechunking and writing them."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr
import zarr

import cfagg
from tests.benchmarks.table import Row, clock

#: How many times less processor time than the peer copying takes.
BAR = 20.0


def rows(small: bool) -> list[Row]:
    """Return the cost of making one store of a thousand, opening them included; and of opening them alone."""
    count, shape = (4, (6, 8, 8)) if small else (1000, (48, 90, 180))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder = Path(name)
        stores = _stores(folder, count, shape)
        names = (folder / f"out-{k}" for k in itertools.count())

        def opened() -> object:
            return cfagg.concatenate([cfagg.open_array(s, "tas") for s in stores])

        def ours() -> None:
            report = cfagg.write(cfagg.concatenate([cfagg.open_array(s, "tas") for s in stores]), next(names))
            assert report.copied == report.chunks == 2 * count

        def referred() -> None:
            report = cfagg.write(
                cfagg.concatenate([cfagg.open_array(s, "tas") for s in stores]), next(names), to="icechunk"
            )
            assert report.referenced == report.chunks == 2 * count

        def theirs() -> None:
            ds = xr.open_mfdataset(
                stores, engine="zarr", combine="nested", concat_dim="time", chunks={}, consolidated=False,
                coords="minimal", data_vars="minimal", compat="override",
            )  # fmt: skip
            ds = ds.chunk(time=2 * shape[0])
            ds.tas.encoding.clear()
            ds.to_zarr(next(names), consolidated=False)

        runs = 1 if not small else 2
        opening, mine, referring, other = clock(opened, ours, referred, theirs, runs=runs)
    job = f"{count:,} stores of {np.prod(shape) * 4 / 1e6:.1f} MB as one"
    peer = "xarray and dask, rechunked"
    return [
        Row(job, mine, other, peer, other / mine, BAR, note="opening them included"),
        Row(f"{job}, referred to in Icechunk", referring, other, peer, other / referring, BAR),
        Row(f"{job}, opened only", opening, other, peer, other / opening, None),
    ]


def _stores(folder: Path, count: int, shape: tuple[int, ...]) -> list[Path]:
    """Write stores of a smooth field of the seas with digits that are measured, each in two chunks."""
    rng = np.random.default_rng(0)
    base = 280 + np.cumsum(np.cumsum(rng.normal(0, 0.02, shape), 1), 2)
    values = (np.round(base * 32) / 32).astype("f4")
    values[:, np.cumsum(rng.normal(size=shape[1:]), 1) > 1] = np.nan  # land
    made = []
    for k in range(count):
        made.append(folder / f"{k}.zarr")
        array = zarr.create_group(made[-1]).create_array(
            "tas",
            shape=shape,
            chunks=(shape[0] // 2, *shape[1:]),
            dtype="f4",
            dimension_names=("time", "lat", "lon"),
            attributes={"units": "K"},
        )
        array[:] = values
    return made
