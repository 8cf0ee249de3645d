"""xarray's objects have the findings of the file that `to_netcdf` writes of them, before it is written."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from cfagg.checking.engine import run
from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.findings.finding import Finding
from tests.checking.corpus import CLEAN
from tests.checking.corpus.defect import Defect
from tests.checking.test_corpus import DEFECTS
from tests.checking.writing import write_cdl
from tests.formats.metadata.seen import seen

SAMPLES = Path(__file__).parents[3] / "sample_data"

#: xarray has no dimensions but those of its variables: where an aggregation lacks one, it may still be in the file.
_UNKNOWN_DIMENSION = "AGG002"

#: What `to_netcdf` itself cannot write; the names of the datasets begin so.
_UNWRITABLE = ("7.5 methods",)

WAYS: list[dict[str, Any]] = [{}, {"decode_times": False}, {"decode_coords": "all"}, {"mask_and_scale": False}]


def every_way(names: Iterable[str]) -> Iterator[Any]:
    """Yield each name with each of the ways, of which one is tried every day."""
    for at, name in enumerate(names):
        for number, way in enumerate(WAYS):
            marks = [] if at % len(WAYS) == number else [pytest.mark.soak]
            yield pytest.param(name, number, id=f"{name}-{' '.join(way) or 'decoded'}", marks=marks)


def found(source: Any) -> list[Finding]:
    with open_dataset(source) as dataset:
        findings = run(dataset, Options(data=True)).findings
    return sorted((f for f in findings if f.code != _UNKNOWN_DIMENSION), key=str)


def opened(path: Path, ways: dict[str, Any]) -> Any:
    """Open a file with xarray, its times as numbers where it cannot decode them."""
    import netCDF4

    with netCDF4.Dataset(path) as file:
        grouped = bool(file.groups)
    try:
        return xr.open_datatree(path, **ways) if grouped else xr.open_dataset(path, **ways)
    except ValueError:
        ways = ways | {"decode_times": False}
        return xr.open_datatree(path, **ways) if grouped else xr.open_dataset(path, **ways)


@pytest.mark.few(30)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "number"), list(every_way(CLEAN)))
def test_a_clean_dataset_opened_by_xarray_is_checked_as_it_is_written(name: str, number: int, tmp_path: Path) -> None:
    path = write_cdl(CLEAN[name], tmp_path / "given.nc")
    with opened(path, WAYS[number]) as held:
        ours = found(held)
        if name.startswith(_UNWRITABLE):
            assert not [f for f in ours if f.code.startswith("INT")]
            return
        held.to_netcdf(tmp_path / "written.nc")
    assert ours == found(tmp_path / "written.nc")


@pytest.mark.few(5)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("defect", DEFECTS[::4], ids=lambda d: d.name)
def test_a_defect_that_xarray_keeps_is_found_as_it_is_written(defect: Defect, tmp_path: Path) -> None:
    try:
        path = write_cdl(defect.text(), tmp_path / "given.nc")
    except AttributeError:
        pytest.skip("the netCDF library does not write this defect")
    try:
        held = opened(path, {"decode_coords": "all"})
    except Exception:  # noqa: BLE001 - what xarray does not open it does not hold either
        held = xr.open_dataset(path, decode_cf=False)
    with held:
        ours = found(held)
        try:
            held.to_netcdf(tmp_path / "written.nc")
        except Exception:  # noqa: BLE001 - nor does it write everything that it opens
            assert not [f for f in ours if f.code.startswith("INT")]
            return
    assert ours == found(tmp_path / "written.nc")


def encoded(dims: Any, values: Any, attributes: dict[str, Any] | None = None, **encoding: Any) -> xr.Variable:
    return xr.Variable(dims, values, attributes, encoding)


def times(**encoding: Any) -> xr.Dataset:
    days = pd.date_range("2001-01-01", periods=4)
    bounds = np.stack([days, days + pd.Timedelta("1D")], 1)
    dataset = xr.Dataset(
        {"v": ("time", [1.0, np.nan, 2.0, 3.0]), "b": (("time", "nv"), bounds)},
        coords={"time": ("time", days, {"bounds": "b", "standard_name": "time"})},
    )
    dataset.time.encoding.update(encoding)
    return dataset


def noleap() -> xr.Dataset:
    return xr.Dataset(coords={"time": xr.date_range("2001-01-01", periods=3, calendar="noleap", use_cftime=True)})


def grown(**dimensions: set[str]) -> xr.Dataset:
    dataset = xr.Dataset({"v": ("x", [1.0, 2.0])})
    dataset.encoding.update(dimensions)
    return dataset


ENUM = np.dtype("i1", metadata={"enum": {"a": 0, "b": 1}, "enum_name": "e"})

IN_MEMORY: dict[str, Callable[[], xr.Dataset]] = {
    "nothing": xr.Dataset,
    "times without units": times,
    "times in hours": lambda: times(units="hours since 2001-01-01 00:00", calendar="gregorian"),
    "times as int": lambda: times(units="days since 2001-1-1", dtype="i4", _FillValue=-9),
    "times of noleap": noleap,
    "times in chunks": lambda: times(units="days since 2001-01-01", dtype="f8").drop_vars("b").chunk({"time": 2}),
    "times in chunks without units": lambda: times().chunk({"time": 2}),
    "no time": lambda: xr.Dataset({"t": ("x", np.array(["2001-01-01", "NaT"], "M8[ns]"))}),
    "one time": lambda: xr.Dataset(coords={"t": pd.Timestamp("2001-01-01")}),
    "durations": lambda: xr.Dataset({"d": ("x", np.array([1, 2], "m8[s]"))}),
    "packed": lambda: xr.Dataset(
        {"v": encoded("x", [1, np.nan, 3], {"units": "m"}, dtype="i2", scale_factor=0.5, add_offset=1.0, _FillValue=-9)}
    ),
    "packed in chunks": lambda: IN_MEMORY["packed"]().chunk({"x": 1}),
    "packed unsigned": lambda: xr.Dataset(
        {"v": encoded("x", [1, np.nan, 3], dtype="u1", _Unsigned="true", _FillValue=255)}
    ),
    "missing_value": lambda: xr.Dataset({"v": encoded("x", [1, np.nan, 3], missing_value=-9.0)}),
    "reals as integers": lambda: xr.Dataset({"v": encoded("x", [1.4, 2.6], dtype="i4")}),
    "no fill value": lambda: xr.Dataset(coords={"x": encoded("x", [1.0, 2.0], {"units": "m"}, _FillValue=None)}),
    "coordinates": lambda: xr.Dataset(
        {"v": ("x", [1.0, 2.0])},
        coords={
            "x": ("x", [1.0, 2.0], {"units": "degrees_east"}),
            "lat": ("x", [1.0, 2.0], {"units": "degrees_north"}),
            "scalar": 5.0,
            "idle": ("k", [1.0]),
        },
    ),
    "bounds": lambda: xr.Dataset(
        {"b": (("x", "n"), [[0, 1.5], [1.5, 3]], {"units": "m", "long_name": "other", "comment": "c"})},
        coords={"x": ("x", [1.0, 2.0], {"units": "m", "long_name": "x", "bounds": "b"})},
    ),
    "text": lambda: xr.Dataset(
        {
            "strings": ("x", ["a", "bcd"]),
            "objects": ("x", np.array([None, "b"], object)),
            "bytes": ("x", np.array([b"a", b"bcd"])),
            "byte objects": ("x", np.array([b"a", b"bb"], object)),
            "characters": encoded("x", np.array(["é", "bcd"], object), dtype="S1"),
            "one word": encoded((), np.array("word"), dtype="S1"),
            "named": encoded("x", np.array([b"abc", b"x"]), char_dim_name="letters"),
            "single": ("x", np.array([b"a", b"b"], "S1")),
            "string": encoded("x", np.array(["a", "b"], object), dtype=str),
        },
        coords={"x": pd.Index(["a", "b"])},
    ),
    "types": lambda: xr.Dataset(
        {
            "bool": ("x", [True, False]),
            "bool as int": encoded("x", [True, False], dtype="i1"),
            "wide": ("x", np.array([1, 2], "i8")),
            "unsigned": ("x", np.array([1, 2], "u2")),
            "big": ("x", np.array([1, 2], ">f4")),
            "enum": encoded("x", np.array([0, 1], ENUM), dtype=ENUM),
        }
    ),
    "attributes": lambda: xr.Dataset(
        {
            "v": (
                "x",
                np.ones(2, "f4"),
                {
                    "valid_range": [0, 1],
                    "flag_values": (1, 2.5),
                    "texts": ["a", "b"],
                    "one": ["a"],
                    "empty": "",
                    "short": np.array([1], "i2"),
                    "accent": "é",
                    "none": np.array([], "i4"),
                },
            )
        },
        attrs={"Conventions": "CF-1.8", "list": ["x"], "number": 1},
    ),
    "empty arrays": lambda: xr.Dataset(
        {"v": ("x", np.zeros(0)), "s": ("x", np.zeros(0, "U1")), "t": ("x", np.zeros(0, "M8[ns]")), "o": ("x", [])}
    ),
    "unlimited": lambda: grown(unlimited_dims={"x"}),
    "grid mapping": lambda: xr.Dataset(
        {
            "v": encoded("x", [1.0, 2.0], grid_mapping="crs"),
            "crs": xr.Variable((), 0, {"grid_mapping_name": "latitude_longitude"}),
        }
    ),
}


@pytest.mark.few(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", IN_MEMORY)
def test_what_is_made_in_memory_is_seen_as_it_is_written(name: str, tmp_path: Path) -> None:
    dataset = IN_MEMORY[name]()
    dataset.to_netcdf(tmp_path / "written.nc")
    with open_dataset(dataset) as ours, open_dataset(tmp_path / "written.nc") as file:
        assert (sorted(seen(ours, values=True)), ours.typed) == (sorted(seen(file, values=True)), file.typed)
    assert found(dataset) == found(tmp_path / "written.nc")


@pytest.mark.few(4)
@pytest.mark.parametrize("name", ["test1.nc", "packed_byte.nc", "packed_float.nc", "profiles.nc", "storms.nc"])
@pytest.mark.parametrize("coordinates", [True, "all"])
def test_a_sample_is_seen_as_it_is_written(name: str, coordinates: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with xr.open_dataset(SAMPLES / name, decode_coords=coordinates) as held, open_dataset(held) as ours:
            held.to_netcdf(tmp_path / "written.nc")
            with open_dataset(tmp_path / "written.nc") as file:
                assert sorted(seen(ours, values=True)) == sorted(seen(file, values=True))


def test_times_that_xarray_would_not_write_in_chunks_are_still_times() -> None:
    dataset = times(units="days since 2001-01-01").chunk({"time": 2})
    with open_dataset(dataset) as ours:
        assert ours.root.variables["time"].attributes["units"] == "days since 2001-01-01"
        assert ours.root.variables["time"].values().tolist() == [0, 1, 2, 3]


def test_what_xarray_refuses_to_write_is_checked_as_it_stands(tmp_path: Path) -> None:
    dataset = xr.Dataset({"v": encoded("x", [1.0, 2.0], {"units": "nonsense"}, _FillValue=1.0, missing_value=2.0)})
    with pytest.raises(ValueError, match="conflicting _FillValue"):
        dataset.to_netcdf(tmp_path / "never.nc")
    codes = {f.code for f in found(dataset)}
    assert {"UNI002", "DAT009"} <= codes
    assert not {c for c in codes if c.startswith("INT")}


def test_values_that_lie_in_a_file_are_not_read_to_check_metadata() -> None:
    from xarray.core.indexing import ExplicitlyIndexedNDArrayMixin, LazilyIndexedArray

    class Refusing(ExplicitlyIndexedNDArrayMixin):  # type: ignore[misc]
        dtype, shape, ndim = np.dtype("f4"), (1000, 1000), 2

        def __getitem__(self, key: Any) -> Any:
            raise AssertionError("read")

    dataset = xr.Dataset({"v": xr.Variable(("y", "x"), LazilyIndexedArray(Refusing()), {"units": "nonsense"})})
    with open_dataset(dataset) as ours:
        assert "UNI002" in {f.code for f in run(ours, Options()).findings}
