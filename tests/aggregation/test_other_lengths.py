"""Files whose companions or bounds have a dimension of their own, as long in each file or not."""

from collections.abc import Sequence
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import cfagg


def box(path: Path, start: float, own: int, refers: Sequence[str], dims: Sequence[str]) -> Path:
    """Write an array along x whose companion has a dimension of its own, of that length; return the path."""
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("y", 2), ("x", 3), ("own", own)):
            file.createDimension(name, size)
        for name, places in (("y", [0, 1]), ("x", start + np.arange(3))):
            v = file.createVariable(name, "f8", (name,))
            v.setncatts({"units": "m", "standard_name": f"projection_{name}_coordinate"})
            v[:] = places
        tas = file.createVariable("tas", "f4", ("y", "x"))
        tas.setncatts({"units": "K", "standard_name": "air_temperature"})
        tas[:] = start
        part = file.createVariable("part", "f4", dims)
        part.setncatts({"long_name": "part", "units": "m2"})
        part[:] = start + np.arange(part.size).reshape(part.shape)
        of, attribute, text = refers
        file[of].setncattr(attribute, text)
    return path


_CASES = pytest.mark.parametrize(
    ("refers", "dims"),
    [
        (("tas", "ancillary_variables", "part"), ("x", "own")),
        (("tas", "ancillary_variables", "part"), ("y", "x", "own")),
        (("tas", "cell_measures", "area: part"), ("own", "x")),
        (("tas", "coordinates", "part"), ("y", "x", "own")),
        (("x", "bounds", "part"), ("x", "own")),
    ],
)


@_CASES
def test_files_whose_companions_have_unequal_lengths_stay_apart_with_the_lengths_as_reason(
    tmp_path, refers, dims
) -> None:
    names = [box(tmp_path / f"{k}.nc", 3 * k, 2 + k, refers, dims) for k in (0, 1)]
    found = cfagg.aggregate(names)
    assert [found[n].shape for n in ("tas", "tas_1")] == [(2, 3), (2, 3)]
    assert [found[n].size for n in ("part", "part_1")] == [
        np.prod([{"x": 3, "y": 2, "own": n}[d] for d in dims]) for n in (2, 3)
    ]
    why = str(found.cfagg.report.why(*names))
    assert "they differ in lengths of other dimensions of " in why
    assert ": 2 and 3" in why
    assert "make these equally long" in why


@_CASES
def test_files_whose_companions_have_equal_lengths_are_one_array(tmp_path, refers, dims) -> None:
    names = [box(tmp_path / f"{k}.nc", 3 * k, 2, refers, dims) for k in (0, 1)]
    found = cfagg.aggregate(names)
    assert found.tas.shape == (2, 6)
    each = [netCDF4.Dataset(n)["part"][:] for n in names]
    assert np.array_equal(found.part.transpose(*dims), np.concatenate(each, axis=dims.index("x")))
