"""Files into which no values were written: nothing is told of what stands in their place."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import pytest

from cfagg.checking.explaining import explanations
from cfagg.checking.missing import unwritten
from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.formats.cdl.parsing import parse_cdl
from tests.checking.rules.asking import findings


def without_values(cdl: str, path: Path) -> Path:
    """Write the header of a dataset alone."""
    with parse_cdl(cdl) as dataset, netCDF4.Dataset(path, "w") as file:
        for name, dimension in dataset.root.dimensions.items():
            file.createDimension(name, dimension.size)
        for name, variable in dataset.root.variables.items():
            written = file.createVariable(name, variable.dtype, variable.dims)
            written.setncatts(variable.attributes)
        file.setncatts(dataset.root.attributes)
    return path


@pytest.mark.parametrize("code", ["GEO006", "GEO015", "GEO019", "GAT003", "SUB009", "COO007", "VRT009"])
def test_a_header_has_no_errors_of_values(code: str, tmp_path: Path) -> None:
    path = without_values(explanations()[code]["passes"], tmp_path / "header.nc")
    with open_dataset(path, options=Options(data=True)) as dataset:
        found = findings(dataset)
    assert [f for f in found if f.severity == "error"] == []


@pytest.mark.parametrize("code", ["DSG008", "GMP016", "GMP017"])
def test_a_header_in_cdl_has_no_findings_about_values(code: str) -> None:
    header = explanations()[code]["passes"].partition("data:")[0].replace("points_per", "accumulated_points_per") + "}"
    assert findings(header, code, cf_version="1.14-draft") == []


def test_a_coordinate_without_values_is_a_warning(tmp_path: Path) -> None:
    path = without_values(explanations()["COO007"]["passes"], tmp_path / "header.nc")
    with open_dataset(path, options=Options(data=True)) as dataset:
        assert {f.severity for f in findings(dataset, "COO007")} == {"warning"}


@pytest.mark.parametrize(("values", "expected"), [("-2147483647, -2147483647", True), ("-2147483647, 5", False)])
def test_one_value_is_enough_to_be_written(values: str, expected: bool) -> None:
    dataset = parse_cdl(f"netcdf a {{ dimensions: x = 2 ; variables: int x(x) ; data: x = {values} ; }}")
    assert unwritten(dataset.root.variables["x"]) is expected
