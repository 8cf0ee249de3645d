"""Observations exchanged, and corrected copies written, by URLs: as by paths of this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr

import cfagg
from cfagg.cli.main import main
from cfagg.demo import sample
from cfagg.errors import TargetExistsError, UnsupportedError
from cfagg.observations import exchange
from cfagg.storage.objects import ObjectStore
from tests.observations.servers import served

pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")


def rows(store, options=None) -> np.ndarray:
    there = cfagg.open_observations(store, "2005-08-23", "2005-08-31", "[0,24)", "24h", storage_options=options)
    return np.concatenate([np.asarray(sample) for sample in there])


def test_a_table_goes_to_a_bucket_and_back(cloud, tmp_path: Path) -> None:
    url, options, _ = cloud
    here = exchange.import_netcdf(sample("storms.nc"), tmp_path / "here.zarr")
    assert exchange.import_netcdf(sample("storms.nc"), url, target_options=options) == url
    np.testing.assert_array_equal(rows(url, options), rows(here))
    for export, load, name in (
        (exchange.export_netcdf, exchange.import_netcdf, "a.nc"),
        (exchange.export_parquet, exchange.import_parquet, "a.parquet"),
    ):
        file = url.replace(".zarr", f"-{name}")
        assert export(url, file, storage_options=options, target_options=options) == file
        with pytest.raises(TargetExistsError, match="overwrite=True"):
            export(here, file, target_options=options)
        export(here, file, target_options=options, overwrite=True)
        back = load(file, tmp_path / f"{name}.zarr", storage_options=options)
        np.testing.assert_array_equal(rows(back), rows(here))
    with pytest.raises(TargetExistsError):
        exchange.import_netcdf(sample("storms.nc"), url, target_options=options)
    home, _, name = url.rpartition("/")
    text = ObjectStore(home, options).read(name.replace(".zarr", "-a.parquet"))
    (tmp_path / "a.parquet").write_bytes(text or b"")
    assert "wind" in pq.read_table(tmp_path / "a.parquet").column_names


def test_files_of_a_web_server_are_imported(tmp_path: Path) -> None:
    here = exchange.import_netcdf(sample("storms.nc"), tmp_path / "here.zarr")
    (tmp_path / "served").mkdir()
    exchange.export_netcdf(here, tmp_path / "served/a.nc")
    exchange.export_parquet(here, tmp_path / "served/a.parquet")
    with served(tmp_path / "served") as server:
        first = exchange.import_netcdf(f"{server.url}/a.nc", tmp_path / "1.zarr")
        second = exchange.import_parquet(f"{server.url}/a.parquet", tmp_path / "2.zarr")
        with pytest.raises(UnsupportedError, match="cannot be written yet"):
            exchange.export_netcdf(here, f"{server.url}/b.nc")
    np.testing.assert_array_equal(rows(first), rows(here))
    np.testing.assert_array_equal(rows(second), rows(here))


@pytest.mark.parametrize("form", ["nc", "zarr"])
def test_a_corrected_copy_is_written_to_a_bucket(keyed, tmp_path: Path, capsys, form: str) -> None:
    wrong = xr.Dataset({"v": ("x", np.arange(3.0), {"units": "K", "standard_name": "Air_Temperature"})})
    source = tmp_path / f"a.{form}"
    wrong.to_netcdf(source) if form == "nc" else wrong.to_zarr(source, zarr_format=2)
    url = f"s3://archive/corrected/{tmp_path.name}.{form}"
    main(["check", "--fix", str(source), "-o", url])
    assert f"written to {url}" in capsys.readouterr().err
    assert cfagg.read(url).v.attrs["standard_name"] == "air_temperature"
    np.testing.assert_array_equal(cfagg.read(url).v, [0, 1, 2])
    assert main(["check", "--fix", str(source), "-o", url]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["check", "--fix", url, "-o", str(tmp_path / "out")]) == 2
    assert "copy it to this machine" in capsys.readouterr().err
