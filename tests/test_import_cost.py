"""Start-up loads only what the work at hand needs; seen from outside, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.demo import sample
from tests.observations.small_stores import hourly

HEAVY = {"cfunits", "dask", "h5py", "matplotlib", "netCDF4", "numba", "pandas", "pydantic", "rich", "xarray", "zarr"}

PROBE = """
import sys
try:
    {statement}
except SystemExit as stop:
    if stop.code:
        raise
print("LOADED", *sorted(m for m, loaded in sys.modules.items() if "." not in m and loaded is not None))
"""


def loaded(statement: str) -> set[str]:
    """Return the top-level modules that a statement loads."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(statement=statement)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.strip().splitlines()[-1].split()[1:])


def command(*args: object) -> str:
    return f"import cfagg.cli.main; code = cfagg.cli.main.main({[str(a) for a in args]!r}); assert not code, code"


def test_a_bare_import_loads_neither_numpy_nor_anything_heavy() -> None:
    assert not loaded("import cfagg") & {*HEAVY, "numpy"}


def test_the_version_command_loads_neither_numpy_nor_anything_heavy() -> None:
    assert not loaded(command("--version")) & {*HEAVY, "numpy"}


def test_the_probe_notices_a_heavy_import() -> None:
    assert {"netCDF4", "numpy"} <= loaded("import netCDF4")


def test_public_names_are_listed_without_loading_them() -> None:
    assert not loaded("import cfagg; assert 'read' in dir(cfagg)") & HEAVY


def test_show_loads_no_array_library() -> None:
    runs = [("temperature.nca",), ("figure1.nca",), ("sst.nca", "--json"), ("sst.nca", "--references")]
    modules = loaded("; ".join(command("show", sample(name), *options) for name, *options in runs))
    assert not modules & {"dask", "matplotlib", "numba", "pandas", "xarray", "zarr"}


def test_show_of_a_file_without_aggregations_loads_neither_dialects_nor_readers_of_fragments() -> None:
    needless = "{'cfagg.conventions.nca', 'cfagg.conventions.instructions', 'cfagg.arrays.fragments'}"
    loaded(f"{command('show', sample('test1.nc'))}; import sys; assert not {needless} & set(sys.modules)")


def test_reading_an_aggregation_of_files_loads_neither_formats_of_stores_nor_other_dialects() -> None:
    needless = "{'cfagg.formats.zarr', 'cfagg.formats.icechunk', 'cfagg.conventions.cf113', 'cfagg.conventions.cfa05'}"
    statement = f"import cfagg; cfagg.read({str(sample('temperature.nca'))!r}).load()"
    loaded(f"{statement}; import sys; assert not {needless} & set(sys.modules), {needless} & set(sys.modules)")


def test_check_of_a_small_file_loads_numpy_and_nothing_that_writes_or_reads_values() -> None:
    statement = f"import cfagg.cli.main; cfagg.cli.main.main(['check', {str(sample('test1.nc'))!r}])"
    modules = loaded(statement)
    assert not modules & {*HEAVY, "hashlib", "jsonschema", "random", "secrets"}
    assert "numpy" in modules
    loaded(f"{statement}; import sys; assert 'cfagg.conventions.detection' not in sys.modules")


def test_check_of_the_values_of_a_zarr_store_loads_no_zarr(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    time = xr.DataArray([0.0, 2.0, 1.0], dims="time", attrs={"units": "days since 2000-01-01", "standard_name": "time"})
    xr.Dataset({"time": time}).to_zarr(path, consolidated=False)
    told = f"import cfagg; assert 'COO007' in [f.code for f in cfagg.check({str(path)!r}, data=True).findings]"
    assert not loaded(told) & {"xarray", "zarr"}


def test_convert_of_a_small_file_loads_neither_xarray_nor_dask_nor_numba(tmp_path: Path) -> None:
    done = command("convert", sample("figure1.nca"), tmp_path / "figure1.zarr")
    modules = loaded(
        f"{done}; import sys; assert not {{'cfagg.findings.rule', 'cfagg.display.summary'}} & set(sys.modules)"
    )
    assert not modules & {"dask", "matplotlib", "numba", "pandas", "xarray"}


def test_convert_of_a_store_on_this_machine_loads_neither_object_stores_nor_readers_of_aggregations(
    tmp_path: Path,
) -> None:
    xr.Dataset({"v": ("x", [1.0])}).to_zarr(tmp_path / "a.zarr", consolidated=False)
    done = command("convert", tmp_path / "a.zarr", tmp_path / "b.zarr")
    needless = "{'cfagg.storage.objects', 'cfagg.arrays.aggregated'}"
    loaded(f"{done}; import sys; assert not {needless} & set(sys.modules)")


def test_windows_of_a_store_of_observations_load_no_models_of_recipes(tmp_path: Path) -> None:
    path, _ = hourly(tmp_path / "a.zarr", days=1, per_day=24)
    modules = loaded(f"import cfagg; cfagg.open_observations({str(path)!r}, frequency='6h', window='(-3,3]')[1].shape")
    assert "pydantic" not in modules
    assert "pydantic" not in loaded("import cfagg")
    assert "pydantic" in loaded("import cfagg.observations.recipe")


@pytest.fixture(scope="module")
def accumulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("mean") / "a.zarr"
    dates = xr.date_range("2001-01-01", periods=40, freq="D")
    values = np.arange(40 * 6, dtype="f4").reshape(40, 6)
    coords = {"time": dates, "lat": ("lat", np.linspace(-50, 50, 6), {"units": "degrees_north"})}
    xr.DataArray(values, coords, ("time", "lat"), "tas").chunk(time=7).to_dataset().to_zarr(store, consolidated=False)
    cfagg.accumulate(store, "tas")
    return store


OPTIONS = [
    ["--over", "time"],
    ["--over", "time", "--select", "time=2001-01-05/2001-02-03", "--json"],
    ["--group", "month"],
]


def as_command(*args: object) -> str:
    """Return code that runs the command line of its own process, as the installed command does."""
    return (
        f"import cfagg.cli.main as m; sys.argv = {['cfagg', *map(str, args)]!r}; code = m.main(); assert not code, code"
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_mean_loads_xarray_and_neither_zarr_nor_dask_nor_jsonschema_nor_a_compiler(
    accumulated: Path, options: list[str]
) -> None:
    modules = loaded(as_command("mean", accumulated, "tas", *options))
    assert not modules & {"dask", "distributed", "h5py", "jsonschema", "matplotlib", "netCDF4", "numba", "zarr"}
    assert "xarray" in modules
