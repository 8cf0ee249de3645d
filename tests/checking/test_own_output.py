"""Everything that cfagg writes passes its own check, with values read and references followed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.checking.engine import Result, run
from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.demo import sample
from cfagg.observations.exchange import export_netcdf
from tests.observations.exchange.tables import table
from tests.observations.small_stores import hourly

AGGREGATIONS = ("sst", "temperature", "temperature2", "figure1", "packed")
FILES = ("test1", "profiles", "storms")


def checked(source: Any) -> Result:
    with open_dataset(source if not isinstance(source, Path) else str(source)) as dataset:
        return run(dataset, Options(data=True, references=True))


def errors(source: Any) -> list[str]:
    return [str(f) for f in checked(source).findings if f.severity == "error"]


@pytest.mark.parametrize(
    "path", sorted(p for p in sample("").iterdir() if p.suffix in (".nc", ".nca")), ids=lambda p: p.name
)
def test_a_sample_is_clean(path: Path) -> None:
    assert errors(path) == []


@pytest.mark.few(4)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", AGGREGATIONS)
def test_a_converted_aggregation_is_clean(tmp_path: Path, name: str, zarr_format: int) -> None:
    cfagg.convert(sample(f"{name}.nca"), tmp_path / "a.zarr", zarr_format=zarr_format)
    assert errors(tmp_path / "a.zarr") == []


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", FILES)
def test_a_converted_file_is_clean(tmp_path: Path, name: str, zarr_format: int) -> None:
    cfagg.convert(sample(f"{name}.nc"), tmp_path / "a.zarr", zarr_format=zarr_format)
    assert errors(tmp_path / "a.zarr") == []


def test_decoded_packing_is_clean(tmp_path: Path) -> None:
    cfagg.convert(sample("packed.nca"), tmp_path / "a.zarr", packing="decode")
    assert errors(tmp_path / "a.zarr") == []


@pytest.mark.few(2)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "settings", [{}, {"dims": [("time",), ("lat", "lon")], "weights": "area"}], ids=["time", "area"]
)
def test_an_accumulation_is_clean(tmp_path: Path, zarr_format: int, settings: dict[str, Any]) -> None:
    store = tmp_path / "a.zarr"
    cfagg.convert(sample("temperature.nca"), store, zarr_format=zarr_format)
    cfagg.accumulate(store, "tas", **settings)
    found = checked(store)
    assert [f for f in found.findings if f.severity == "error"] == []
    assert not any(f.variable and "accumulation_group" in f.variable for f in found.findings)


def test_an_accumulation_of_data_that_have_changed_is_stale(tmp_path: Path) -> None:
    store = tmp_path / "a.zarr"
    cfagg.convert(sample("temperature.nca"), store, zarr_format=2)
    cfagg.accumulate(store, "tas")
    chunk = next(p for p in sorted((store / "tas").iterdir()) if not p.name.startswith("."))
    chunk.write_bytes(chunk.read_bytes())
    found = [f for f in checked(store).findings if f.severity == "error"]
    assert [(f.code, f.variable) for f in found] == [("ACC007", "/tas_accumulation_group/")]
    assert "--refresh" in found[0].message


def test_an_accumulation_without_an_array_of_sums_is_damaged(tmp_path: Path) -> None:
    import shutil

    store = tmp_path / "a.zarr"
    cfagg.convert(sample("temperature.nca"), store, zarr_format=2)
    cfagg.accumulate(store, "tas")
    shutil.rmtree(store / "tas_accumulation_group" / "acc_time")
    codes = {f.code for f in checked(store).findings if f.severity == "error"}
    assert "ACC003" in codes
    assert codes <= {"ACC003", "ACC006"}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_is_read_from_an_aggregation_is_clean_in_memory_and_written_again(
    tmp_path: Path, zarr_format: int
) -> None:
    with cfagg.read(sample("temperature.nca")) as dataset:
        assert errors(dataset) == []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset.to_zarr(tmp_path / "a.zarr", zarr_format=zarr_format, consolidated=False)
        dataset.to_netcdf(tmp_path / "a.nc")
    assert errors(tmp_path / "a.zarr") == []
    assert errors(tmp_path / "a.nc") == []


def test_a_mean_is_clean(tmp_path: Path) -> None:
    store = tmp_path / "a.zarr"
    cfagg.convert(sample("temperature.nca"), store)
    cfagg.accumulate(store, "tas")
    mean = cfagg.open_accumulated(store, "tas").mean(dim="time")
    dataset = mean.to_dataset(name="tas") if isinstance(mean, xr.DataArray) else mean
    assert [e for e in errors(dataset) if "DOC010" not in e] == []


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("point", {}),
        ("indexed", {}),
        ("contiguous", {}),
        ("indexed", {"by": "id"}),
        ("contiguous", {"by": "id", "feature": "trajectory", "vertical": "depth"}),
    ],
    ids=str,
)
def test_exported_observations_are_clean(tmp_path: Path, form: str, options: dict[str, str]) -> None:
    written = export_netcdf(table(move="feature" in options), tmp_path / "a.nc", form, **options)
    assert errors(Path(written)) == []


def test_a_store_of_observations_is_clean(tmp_path: Path) -> None:
    path, _ = hourly(tmp_path / "a.zarr")
    found = checked(path)
    assert found.findings == []
    assert "observations" in found.skipped["DOC010"]


def test_a_store_of_observations_that_cfagg_made_is_clean(tmp_path: Path) -> None:
    from cfagg.observations.exchange import import_netcdf

    store = import_netcdf(export_netcdf(table(), tmp_path / "a.nc", "point"), tmp_path / "a.zarr")
    assert errors(Path(store)) == []


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("column", "value", "code"), [(0, 0.5, "OBS013"), (1, 90_000, "OBS014"), (2, 91, "OBS015"), (3, 360, "OBS016")]
)
def test_a_wrong_value_in_a_store_of_observations_is_found(
    tmp_path: Path, column: int, value: float, code: str
) -> None:
    import zarr

    path, rows = hourly(tmp_path / "a.zarr")
    changed = np.array(rows)
    changed[100, column] = value if column else changed[100, column] + value
    zarr.open_group(path, mode="r+")["data"][...] = changed
    assert code in {f.code for f in checked(path).findings}


def test_a_store_of_observations_without_its_rows_cannot_be_opened(tmp_path: Path) -> None:
    import shutil

    path, _ = hourly(tmp_path / "a.zarr")
    shutil.rmtree(path / "data")
    assert "OBS001" in {f.code for f in checked(path).findings}


def test_rows_of_observations_are_read_only_with_data(tmp_path: Path) -> None:
    path, _ = hourly(tmp_path / "a.zarr")
    with open_dataset(str(path)) as dataset:
        skipped = run(dataset, Options()).skipped
    assert {c for c in skipped if c.startswith("OBS")} == {
        "OBS002", "OBS011", "OBS012", "OBS013", "OBS014", "OBS015", "OBS016", "OBS021", "OBS022", "OBS023", "OBS031",
        "OBS032", "OBS041",
    }  # fmt: skip
