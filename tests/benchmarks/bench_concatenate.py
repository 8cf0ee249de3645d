"""Many Zarr stores as one: chunks copied as they are, against reading, rechunking and writing them."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
import zarr

import cfagg
from tests.benchmarks.table import Row, clock

#: How many times less processor time than the peer copying takes, where the field is compressed.
BAR = 20.0

#: Share of the floor, copying the same bytes, that is reached where the field hardly is.
SHARE = 0.6


def rows(small: bool) -> list[Row]:
    """Return the cost of making one store of a thousand, opening them included; and of opening them alone.

    Of a field that is compressed to a sixth, of noise, which hardly is, and of the bare field: all bytes of the last
    two have to be copied, which takes the system a tenth of what the peer takes for all.  References copy none.
    """
    count, shape = (4, (6, 8, 8)) if small else (1000, (48, 90, 180))
    few = count if small else count // 4
    return [
        *_rows(_smooth(shape), count, small),
        *_rows(_noise(shape), few, small, ", of noise"),
        *_rows(_smooth(shape), few, small, ", uncompressed", None),
    ]


def _rows(values: npt.NDArray[np.float32], count: int, small: bool, large: str = "", codec: Any = "auto") -> list[Row]:
    """Return the rows of one field; `large` says why its chunks are not small."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder = Path(name)
        stores = _stores(folder, count, values, codec)
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
            ds = ds.chunk(time=2 * len(values))
            ds.tas.encoding.clear()
            encoding = {} if codec else {"tas": {"compressors": None}}
            ds.to_zarr(next(names), consolidated=False, encoding=encoding)

        def least() -> None:
            _copy(stores, next(names))

        # Both sides are run in turn: the peer, too, varies by a half from run to run.
        opening, mine, referring, floor, other = clock(opened, ours, referred, least, theirs, runs=1 if small else 3)
    job = f"{count:,} stores of {values.nbytes / 1e6:.1f} MB as one"
    peer = "xarray and dask, rechunked"
    floors = [Row(f"{job}{large}", mine, floor, "copying the bytes alone", floor / mine, SHARE)] if large else []
    bar = None if large else BAR
    return [
        Row(f"{job}{large}", mine, other, peer, other / mine, bar, note="opening them included"),
        *floors,
        Row(f"{job}{large}, referred to in Icechunk", referring, other, peer, other / referring, BAR),
        Row(f"{job}{large}, opened only", opening, other, peer, other / opening, None),
    ]


def _copy(stores: Sequence[Path], target: Path) -> None:
    """Copy the chunks of stores by the system, each by one call, and nothing else."""
    target.mkdir()
    k = 0
    for store in stores:
        for i in range(2):
            source = os.open(f"{store}/tas/c/{i}/0/0", os.O_RDONLY)
            made = os.open(f"{target}/{k}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.copy_file_range(source, made, os.fstat(source).st_size)
            os.close(source)
            os.close(made)
            k += 1


def _smooth(shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return a smooth field of the seas with digits that are measured."""
    rng = np.random.default_rng(0)
    base = 280 + np.cumsum(np.cumsum(rng.normal(0, 0.02, shape), 1), 2)
    values = (np.round(base * 32) / 32).astype("f4")
    values[:, np.cumsum(rng.normal(size=shape[1:]), 1) > 1] = np.nan  # land
    return values


def _noise(shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=shape).astype("f4")


def _stores(folder: Path, count: int, values: npt.NDArray[np.float32], codec: Any) -> list[Path]:
    """Write stores of a field, each in two chunks and warmer than the one before."""
    shape = values.shape
    made = []
    for k in range(count):
        made.append(folder / f"{k}.zarr")
        array = zarr.create_group(made[-1]).create_array(
            "tas",
            shape=shape,
            chunks=(shape[0] // 2, *shape[1:]),
            dtype="f4",
            compressors=codec,
            dimension_names=("time", "lat", "lon"),
            attributes={"units": "K"},
        )
        array[:] = values + np.float32(k / 32)
    return made
