"""Servers that refuse what is absent, as buckets do that may not be listed, still serve stores of either format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.errors import AccessError
from cfagg.formats.zarr.refused import read_or_absent
from tests.observations.servers import served

DATA = np.arange(12.0).reshape(3, 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a store of each format, in which all chunks are stored."""
    made = xr.Dataset({"t": (("x", "y"), DATA)}, {"x": [1.0, 2.0, 4.0]})
    made.to_zarr(tmp_path / "v2.zarr", zarr_format=2, consolidated=True)
    made.to_zarr(tmp_path / "v3.zarr", zarr_format=3, consolidated=False)
    cfagg.convert(tmp_path / "v2.zarr", tmp_path / "c3.zarr")
    return tmp_path


#: Pattern of the documents that a store of one format does not have.
ABSENT = {"v2": "zarr.json", "c3": r"/\.z"}


@pytest.mark.parametrize(("name", "read"), [
    *((name, read) for name in ABSENT for read in (
        lambda url: cfagg.read(url)["t"].values,
        lambda url: cfagg.open_array(url, "t")[...],
        lambda url: cfagg.aggregate([url])["t"].values,
    )),
    ("v3", lambda url: cfagg.open_array(url, "t")[...]),
])  # fmt: skip
def test_a_store_whose_absent_documents_are_refused_is_read(folder: Path, name: str, read: Callable) -> None:
    with served(folder) as server:
        server.rules = {ABSENT.get(name, r"/\.z"): [403] * 999}
        np.testing.assert_array_equal(read(f"{server.url}/{name}.zarr"), DATA)


@pytest.mark.parametrize("name", ABSENT)
def test_a_store_whose_absent_documents_are_refused_is_checked(folder: Path, name: str) -> None:
    with served(folder) as server:
        usual = cfagg.check(f"{server.url}/{name}.zarr").findings
        server.rules = {ABSENT[name]: [403] * 999}
        assert cfagg.check(f"{server.url}/{name}.zarr").findings == usual


@pytest.mark.parametrize("refused", ["zarr.json", ".zarray", ".zattrs", "c/0"])
def test_what_nothing_else_shows_to_be_absent_is_an_error(refused: str) -> None:
    def read(key: str) -> bytes | None:
        if key == f"a/{refused}":
            raise AccessError("403")
        return b"{}" if key == "a/.zattrs" else None

    with pytest.raises(AccessError, match="403"):
        read_or_absent(read, f"a/{refused}")


@pytest.mark.parametrize(("refused", "other"), [
    (".zarray", ".zgroup"), (".zarray", "zarr.json"), (".zattrs", "zarr.json"), (".zgroup", ".zarray"),
    (".zgroup", "zarr.json"), (".zmetadata", "zarr.json"), ("zarr.json", ".zarray"), ("zarr.json", ".zgroup"),
])  # fmt: skip
def test_a_refused_document_is_absent_beside_one_that_excludes_it(refused: str, other: str) -> None:
    def read(key: str) -> bytes | None:
        if key != f"a/{other}":
            raise AccessError("403")
        return b"{}"

    assert read_or_absent(read, f"a/{refused}") is None
