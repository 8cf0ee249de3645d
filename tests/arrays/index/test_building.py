"""Building an index: by other processes, by a Dask cluster, and of files that change meanwhile."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from cfagg.arrays.index import Index, build_index, building
from cfagg.arrays.index.parquet import index_bytes
from cfagg.errors import StaleIndexWarning

from .test_reading import MIXED, make, reader_of


def test_a_digest_is_that_of_the_state_that_was_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _, places = make(tmp_path, [{"format": "NETCDF3_CLASSIC"}])
    path, before = tmp_path / "3.nc", building.digest_of

    def disturbed(handle: Any, ranges: Sequence[int], context: Any) -> bytes | None:
        if handle.key.path == str(path):
            data = path.read_bytes()
            path.write_bytes(data.replace(b"\0\0\0\1K\0\0\0", b"\0\0\0\2mK\0\0"))
        return before(handle, ranges, context)

    with monkeypatch.context() as patch:
        patch.setattr(building, "digest_of", disturbed)
        index = build_index(places)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleIndexWarning)
        found, expected = (
            reader_of(tmp_path, made, one).read([slice(None), slice(0, 2), slice(None)]) for one in (index, None)
        )
    assert expected.max() > 300
    assert np.array_equal(found, expected)


def test_other_processes_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, places = make(tmp_path, MIXED)
    monkeypatch.setattr(building, "_FIRST", 2)
    monkeypatch.setattr(building, "_WORTH", -1)
    monkeypatch.setattr(building, "_TOGETHER", 3)
    steps: list[tuple[int, int]] = []
    index = build_index(places, workers=2, progress=lambda n, of: steps.append((n, of)))
    assert steps[-1] == (len(places), len(places))
    assert same(index, build_index(places, workers=1), tmp_path)


def test_the_workers_of_a_cluster_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import Client, LocalCluster

    _, _, places = make(tmp_path, MIXED)
    monkeypatch.setattr(building, "_TOGETHER", 3)
    steps: list[tuple[int, int]] = []
    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        index = build_index(places, client=client, progress=lambda n, of: steps.append((n, of)))
    assert len(steps) == 3
    assert steps[-1] == (8, 8)
    assert same(index, build_index(places, workers=1), tmp_path)


def same(one: Index, other: Index, folder: Path) -> bool:
    assert len(one.address) == len(os.listdir(folder))  # noqa: PTH208
    return index_bytes(one, str(folder)) == index_bytes(other, str(folder))


@pytest.mark.parametrize("libver", ["v110", "latest"])
@pytest.mark.parametrize("grows", [(None, 6, 8), (None, None, 8), (4, 6, 8)], ids=str)
def test_newer_files_are_indexed_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, libver: Any, grows: tuple[int | None, ...]
) -> None:
    with h5py.File(tmp_path / "a.nc", "w", libver=(libver, libver)) as file:
        made = file.create_dataset("v", data=np.arange(192.0).reshape(4, 6, 8), chunks=(2, 3, 5), maxshape=grows,
                                   compression="gzip")  # fmt: skip
        for axis, name in enumerate("tyx"):
            file.create_dataset(name, data=np.arange(made.shape[axis]), maxshape=grows[axis : axis + 1]).make_scale()
            made.dims[axis].attach_scale(file[name])
        chunks = [made.id.get_chunk_info(k) for k in range(made.id.get_num_chunks())]
        wanted = [(*np.array(c.chunk_offset) // made.chunks, c.byte_offset, c.size) for c in chunks]
    monkeypatch.setattr("cfagg.formats.hdf5.library_variables.find", None)
    monkeypatch.setattr("cfagg.formats.hdf5.chunks.table", None)
    index = build_index([(str(tmp_path / "a.nc"), name) for name in "vx"])
    # What it follows from was parsed here to the last byte.
    assert index.digest[0] is not None
    cells = np.stack(np.unravel_index(np.arange(8), (2, 2, 2))).T.tolist()
    found = zip(index.offset[0].tolist(), index.length[0].tolist(), strict=True)
    assert [(*c, *where) for c, where in zip(cells, found, strict=True)] == sorted(wanted)
    assert (index.stored_header(0).dims, tuple(index.shape[0])) == (("t", "y", "x"), (4, 6, 8))  # type: ignore[union-attr]
