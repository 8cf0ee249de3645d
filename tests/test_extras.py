"""Without the libraries of an extra, what needs them says how to install them, and all else works."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cfagg.errors import MissingExtraError
from cfagg.errors.extras import require

#: What is asked for, the libraries that are hidden, and the extra that brings them.
CASES = [
    ("cfagg.read(sample('sst.nca'), chunks={})", ["dask"], "dask"),
    ("cfagg.create_observations('recipe.yaml', 'out.zarr')", ["yaml"], "observations"),
    ("cfagg.create_observations({}, 'out.zarr')", ["pyarrow"], "observations"),
    ("import_parquet('a.parquet', 'a.zarr')", ["pyarrow"], "observations"),
    ("cfagg.read('gs://b1/a.nc')", ["obstore"], "cloud"),
    ("cfagg.convert(sample('sst.nca'), 'az://b1/a.zarr')", ["obstore"], "cloud"),
    ("check_library()", ["matplotlib"], "plot"),
]

PROGRAM = """
import sys
for name in {hidden!r}:
    sys.modules[name] = None  # as if it were not installed
import cfagg
from cfagg.demo import sample
from cfagg.display.picture import check_library
from cfagg.observations.exchange import import_parquet
try:
    {call}
except cfagg.errors.MissingExtraError as error:
    assert isinstance(error, ModuleNotFoundError), type(error)
    print(error.name, error)
"""


def run(call: str, hidden: list[str], cwd) -> str:
    program = PROGRAM.format(hidden=hidden, call=call)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.few(1)
@pytest.mark.parametrize(("call", "hidden", "extra"), CASES)
def test_a_missing_extra_names_its_pip_install(call, hidden, extra, tmp_path):
    (tmp_path / "recipe.yaml").write_text("dates: {}\n", encoding="utf-8")
    said = run(call, hidden, tmp_path)
    assert said.startswith(hidden[0])
    assert f"pip install 'cfagg[{extra}]'" in said


def test_reading_needs_no_extra(tmp_path):
    call = "print(float(cfagg.read(sample('sst.nca')).surface_temperature[0, 0, 0]) > 0)"
    assert run(call, ["dask", "distributed", "matplotlib", "pyarrow", "yaml", "torch"], tmp_path) == "True\n"


def test_what_is_installed_is_not_refused():
    require("tests", "pandas", "pyarrow")


def test_the_error_is_pickled_with_the_name_of_the_library():
    import pickle

    copy = pickle.loads(pickle.dumps(MissingExtraError("no dask", name="dask")))
    assert (copy.name, copy.message) == ("dask", "no dask")
