"""Arrays of text that grow; zarr-python and xarray read what is there afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.errors import ConformError, FragmentReadError
from tests.effort import examples

pytestmark = pytest.mark.filterwarnings(
    "ignore:Consolidated metadata:UserWarning", "ignore:.*does not have a Zarr V3 spec.*", "ignore:.*rectilinear.*"
)

TYPES = {"string": "string", "fixed": "<U6", "bytes": "S6"}


def made(path: Path, values: np.ndarray[Any, Any], kind: str, zarr_format: int, chunk: int, order: str = "C") -> None:
    group = zarr.create_group(path, zarr_format=zarr_format)
    dims = ["t", "x"][: values.ndim]
    how: dict[str, Any] = {"dimension_names": dims} if zarr_format == 3 else {"attributes": {"_ARRAY_DIMENSIONS": dims}}
    if zarr_format == 2:
        how["order"] = order
    chunks = (chunk, 2)[: values.ndim]
    array = group.create_array("name", shape=values.shape, chunks=chunks, dtype=TYPES[kind], **how)
    if values.size:
        array[...] = values
    zarr.consolidate_metadata(path)


def texts(kind: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    letters = "ab c" if kind == "bytes" else "aé漢🌊 "
    found = ["".join(rng.choice(list(letters), rng.integers(0, 7))) for _ in range(int(np.prod(shape)))]
    values = np.array([s.encode() for s in found] if kind == "bytes" else found, dtype=object)
    return values.reshape(shape)


@settings(max_examples=examples(120), deadline=None)
@given(
    kind=st.sampled_from(sorted(TYPES)),
    zarr_format=st.sampled_from([2, 3]),
    order=st.sampled_from("CF"),
    counts=st.lists(st.integers(0, 7), min_size=1, max_size=3),
    first=st.integers(0, 7),
    chunk=st.integers(1, 5),
    rank=st.integers(1, 2),
)
def test_text_that_is_appended_is_what_zarr_reads(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    zarr_format: int,
    order: str,
    counts: list[int],
    first: int,
    chunk: int,
    rank: int,
) -> None:
    store = tmp_path_factory.mktemp("text") / "a.zarr"
    values = texts(kind, (first + sum(counts), 3)[:rank], first + chunk)
    made(store, values[:first], kind, zarr_format, chunk, order)
    at = first
    for count in counts:
        cfagg.append(store, {"name": values[at : at + count]}, "t")
        at += count
    found = zarr.open_consolidated(store)["name"][...]  # type: ignore[index]
    assert np.asarray(found).astype(object).tolist() == values.tolist()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_stations_with_names_are_appended_from_files(tmp_path: Path, zarr_format: int) -> None:
    def stations(start: int, count: int) -> xr.Dataset:
        names = np.array([f"Zürich {k}" for k in range(start, start + count)], dtype=object)
        return xr.Dataset({"tas": ("station", np.arange(start, start + count) / 2)}, {"station": names})

    store = tmp_path / "a.zarr"
    stations(5, 5).to_zarr(store, zarr_format=zarr_format)
    stations(0, 3).to_netcdf(tmp_path / "b.nc")
    cfagg.append(store, tmp_path / "b.nc", "station", on_loss="drop")
    cfagg.append(store, stations(2, 2), "station")
    expected = xr.concat([stations(5, 5), stations(0, 3), stations(2, 2)], "station")
    found = xr.open_zarr(store).load()
    assert found.station.values.tolist() == expected.station.values.tolist()
    assert found.tas.values.tolist() == expected.tas.values.tolist()


def test_a_chunk_of_text_of_an_edge_of_its_own_is_appended(tmp_path: Path) -> None:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        group = zarr.create_group(tmp_path / "a.zarr")
        group.create_array("name", shape=(3,), chunks=[[2, 1]], dtype="string", dimension_names=("t",))[:] = np.array(
            ["a", "b", "c"], dtype=object
        )
        cfagg.append(tmp_path / "a.zarr", {"name": np.array(["d", "e"])}, "t")
        assert zarr.open_array(tmp_path / "a.zarr/name")[:].tolist() == list("abcde")


def test_text_that_the_store_does_not_hold_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "a.zarr", texts("fixed", (3,), 0), "fixed", 3, 2)
    made(tmp_path / "b.zarr", texts("bytes", (3,), 0), "bytes", 2, 2)
    made(tmp_path / "c.zarr", texts("string", (3,), 0), "string", 3, 2)
    for store, value, said in (
        ("a", "seven..", "longer than the store holds"),
        ("a", "zero\0", "ends with a null character"),
        ("b", b"zero\0", "ends with a null character"),
        ("b", "text", "is of type str"),
        ("c", b"bytes", "is of type bytes"),
        ("c", 1.5, "is of type float"),
        ("c", None, "is of type NoneType"),
        ("c", "\ud800", "surrogates"),
    ):
        one = np.empty(1, object)
        one[0] = value
        before = zarr.open_array(tmp_path / f"{store}.zarr/name")[...].tolist()
        with pytest.raises(ConformError, match=said):
            cfagg.append(tmp_path / f"{store}.zarr", {"name": one}, "t")
        assert zarr.open_array(tmp_path / f"{store}.zarr/name")[...].tolist() == before
    with pytest.raises(ConformError, match="is of type int"):
        cfagg.append(tmp_path / "c.zarr", {"name": np.array([1])}, "t")


def test_text_that_would_be_read_as_missing_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "a.zarr", np.array(["a"], object), "string", 3, 2)
    zarr.open_array(tmp_path / "a.zarr/name").attrs["_FillValue"] = "none"
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    with pytest.raises(ConformError, match="read as missing"):
        cfagg.append(tmp_path / "a.zarr", {"name": np.array(["none"])}, "t")


def test_a_last_chunk_of_text_that_is_damaged_is_not_written_again(tmp_path: Path) -> None:
    made(tmp_path / "a.zarr", texts("string", (3,), 0), "string", 3, 2)
    chunk = tmp_path / "a.zarr/name/c/1"
    chunk.write_bytes(b"damaged")
    with pytest.raises(FragmentReadError, match=r"name', the last chunk \(c/1\) cannot be read"):
        cfagg.append(tmp_path / "a.zarr", {"name": np.array(["a"])}, "t")
    assert chunk.read_bytes() == b"damaged"


def test_a_shard_of_text_that_is_not_full_is_filled(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "a.zarr")
    array = group.create_array("name", shape=(4,), chunks=(2,), shards=(4,), dtype="string", dimension_names=("t",))
    array[:] = np.array(list("abcd"), dtype=object)
    cfagg.append(tmp_path / "a.zarr", {"name": np.array(list("efg"))}, "t")
    assert zarr.open_array(tmp_path / "a.zarr/name")[:].tolist() == list("abcdefg")
    cfagg.append(tmp_path / "a.zarr", {"name": np.array(["h"])}, "t")
    assert zarr.open_array(tmp_path / "a.zarr/name")[:].tolist() == list("abcdefgh")


@pytest.mark.parametrize("there", [{}, {"units": "1"}])
def test_text_with_other_units_than_those_of_the_store_is_refused(tmp_path: Path, there: dict[str, str]) -> None:
    path = tmp_path / "a.zarr"
    xr.Dataset({"name": ("t", ["a", "b"], there)}).to_zarr(path, consolidated=False)
    with pytest.raises(ConformError, match=r"name.*is text with the units 'kg', in the store"):
        cfagg.append(path, {"name": (("t",), np.array(["c"]), {"units": "kg"})}, "t")
    cfagg.append(path, {"name": (("t",), np.array(["c"]), there)}, "t")
    assert xr.open_zarr(path, consolidated=False)["name"].values.tolist() == ["a", "b", "c"]
