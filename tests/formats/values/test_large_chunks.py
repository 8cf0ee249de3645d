"""Chunks of HDF5 that claim gigabytes are refused, or never touched, in little memory."""

from __future__ import annotations

import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import pytest

from cfagg.checking.opening import open_dataset
from cfagg.conventions import limits
from cfagg.errors import CfaggError, LimitError
from tests.fuzzing.files import WAYS
from tests.systems import proc


@contextmanager
def little_memory() -> Iterator[None]:
    """Leave the process one more GB of memory."""
    size = int(proc("self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + 2**30, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def made(path: Path, chunks: tuple[int, int], *, claimed: tuple[int, int] | None = None) -> str:
    with h5py.File(path, "w", libver="earliest") as file:
        data = file.create_dataset("tas", (4, 6), "i4", chunks=chunks, maxshape=(None, 6), compression="gzip")
        data.attrs["valid_min"] = np.int32(0)
        data.attrs["actual_range"] = np.array([0, 0], "i4")
        if claimed is not None:
            data[:] = 0
    if claimed is not None:
        raw = path.read_bytes()
        stood = struct.pack("<III", *chunks, 4)
        assert raw.count(stood) == 1
        path.write_bytes(raw.replace(stood, struct.pack("<III", *claimed, 4)))
    return str(path)


@pytest.mark.parametrize("way", ["check --data", "values", "locate", "show", "read", "convert"])
@pytest.mark.parametrize("claimed", [(2**31 - 1, 3), (2**31 - 1, 100), (2**28, 3)], ids=["24 GiB", "800 GiB", "3 GiB"])
def test_a_header_that_claims_a_chunk_of_gigabytes_is_refused_or_left_alone(
    tmp_path: Path, way: str, claimed: tuple[int, int]
) -> None:
    path = made(tmp_path / "a.nc", (2, 3), claimed=claimed)
    with little_memory():
        # Some report, or try one variable after the other; one touches no chunk, and the library refuses larger ones.
        if way in ("check --data", "locate") or (way, claimed) == ("show", (2**28, 3)):
            WAYS[way][0](path)
        else:
            with pytest.raises(CfaggError, match=r"a\.nc"):
                WAYS[way][0](path)


@pytest.mark.parametrize("way", ["values", "read", "convert"])
def test_a_chunk_of_three_gigabytes_that_a_library_has_made_is_refused_by_its_size(tmp_path: Path, way: str) -> None:
    path = made(tmp_path / "a.nc", (2**27, 6))
    with little_memory(), pytest.raises(LimitError, match=r"3,221,225,472 bytes.*CFAGG_MAX_CHUNK=3221225472"):
        WAYS[way][0](path)


def test_values_that_the_checker_reads_obey_the_limit_on_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path / "a.nc", (100, 6))
    with open_dataset(path) as dataset:
        assert dataset.variables[0].values().tolist() == [[0] * 6] * 4
        monkeypatch.setattr(limits, "MAX_CHUNK", 2399)
        with pytest.raises(LimitError, match="2,400 bytes"):
            dataset.variables[0].values()
