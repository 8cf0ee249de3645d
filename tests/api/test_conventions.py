"""Every verb names the same convention for the same file, and reads the same values from the samples of all."""

import json
import shutil

import numpy as np
import pytest

import cfagg
from cfagg.arrays.opening import open_any
from cfagg.checking.context import Context
from cfagg.checking.described import described
from cfagg.checking.opening import open_dataset
from cfagg.cli.main import main
from cfagg.demo import sample

NAMES = {
    "temperature.nca": "NCA-0.1",
    **{
        f"temperature-{d}.nc": d
        for d in (*("NCA-0.2", "NCA-0.2.1", "NCA-0.2.2", "CFA-0.3", "CFA-0.4"), "CFA-0.5", "CFA-0.6.2", "CF-1.13")
    },
}


@pytest.mark.parametrize(("name", "dialect"), NAMES.items())
def test_read_show_check_and_convert_name_the_same_convention(name, dialect, capsys):
    path = sample(name)
    assert cfagg.open_aggregation(path, "tas").dialect == dialect
    assert open_any(str(path)).find("tas")[1].dialect == dialect  # what `read` and `convert` take
    assert f"  convention: {dialect}\n" in str(cfagg.show(path, variables=["tas"]))
    assert main(["show", str(path), "--json", "--variable", "tas"]) == 0
    (variable,) = json.loads(capsys.readouterr().out)["groups"][0]["variables"]
    assert variable["aggregation"]["dialect"] == dialect
    with open_dataset(str(path)) as dataset:
        (one,) = described(Context(dataset)).values()
    assert one.aggregation is not None
    assert (one.aggregation.dialect, one.misprints, one.repairs) == (dialect, (), ())


@pytest.mark.parametrize("name", [name for name in NAMES if name != "temperature.nca"])
def test_the_sample_of_each_convention_has_the_same_values_and_no_other_variables(name):
    with cfagg.read(sample("temperature.nca")) as expected, cfagg.read(sample(name)) as found:
        assert set(found.variables) == {"time", "lat", "lon", "tas"}
        assert found["tas"].attrs == expected["tas"].attrs
        picked = {"time": [0, 11, 12, 47], "lat": slice(10, 12)}
        np.testing.assert_array_equal(found["tas"].isel(picked), expected["tas"].isel(picked))


@pytest.mark.parametrize("name", NAMES)
def test_the_references_of_each_convention_are_listed_without_opening_one(name, capsys, tmp_path):
    path = shutil.copy(sample(name), tmp_path)  # its fragments are not there
    assert main(["show", str(path), "--references"]) == 0
    assert [line.split("\t") for line in capsys.readouterr().out.splitlines()] == [
        ["inside", "1", "test1.nc"],
        ["inside", "1", "test2.nc"],
    ]
