"""Any array cut into fragments of any form reads as itself, in each dialect: NumPy is the oracle."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from tests import instruction_files as files
from tests import nca_files
from tests.effort import examples

NAMES = ("time", "lat", "lon")


@st.composite
def arrays(draw):
    """An array of small whole numbers, the sizes of its fragments, and how each fragment is stored."""
    rank = draw(st.integers(0, 3))
    rows = [draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)) for _ in range(rank)]
    values = np.arange(1, 1 + np.prod([sum(r) for r in rows], dtype=int), dtype="f8").reshape([sum(r) for r in rows])
    forms = [
        {
            "named": draw(st.booleans()),
            "less": draw(st.booleans()),
            "order": draw(st.permutations(range(rank))),
            "packed": draw(st.booleans()),
            "units": draw(st.sampled_from(["m", "km", None])),
            "dtype": draw(st.sampled_from(["f8", "f4", "i4", "i2"])),
            "classic": draw(st.booleans()),
            "missing": draw(st.booleans()),
        }
        for _ in range(int(np.prod([len(r) for r in rows], dtype=int)))
    ]
    selection = tuple(
        draw(
            st.slices(n)
            | st.integers(0, n - 1)
            | st.lists(st.integers(0, n - 1), min_size=1, max_size=3).map(lambda i: np.array(i))
        )
        for n in values.shape
    )
    return values, rows, forms, selection


def stored(block, names, form, dialect):
    """Return what a file holds of a block, with dimensions and attributes, and the values that it means."""
    attributes = {} if form["units"] is None else {"units": form["units"]}
    meant = block.copy()
    numbers = block.astype("f8")
    if form["units"] == "km":
        numbers, form = numbers / 1000, form | {"dtype": "f8", "packed": False}
    if form["packed"]:
        attributes |= {"scale_factor": 0.5, "add_offset": -3.0}
        numbers = (numbers + 3) * 2
    numbers = numbers.astype(form["dtype"])
    if form["missing"] and numbers.size:
        fill = numbers.dtype.type(-77)
        attributes["missing_value"] = fill
        numbers.reshape(-1)[0] = fill
        meant.reshape(-1)[0] = np.nan
    dims = list(names)
    if form["less"]:
        kept = [d for d in range(block.ndim) if block.shape[d] != 1]
        numbers, dims = numbers.reshape([block.shape[d] for d in kept]), [dims[d] for d in kept]
    elif form["named"] and dialect == "CF-1.13":
        numbers, dims = numbers.transpose(form["order"]), [dims[d] for d in form["order"]]
    if not form["named"]:
        dims = [f"own_{d}" for d in dims]
    return numbers, dims, attributes, meant


@pytest.mark.few(1)
@pytest.mark.parametrize("dialect", ["CF-1.13", "CFA-0.6.2"])
@settings(max_examples=examples(60), deadline=None)
@given(case=arrays())
def test_any_array_reads_as_itself(dialect, case):
    values, rows, forms, selection = case
    expected = values.copy()
    with tempfile.TemporaryDirectory() as folder:
        uris = np.empty([len(r) for r in rows], object)
        names = NAMES[: values.ndim]
        for k, index in enumerate(np.ndindex(uris.shape)):
            box = tuple(slice(sum(row[:i]), sum(row[: i + 1])) for row, i in zip(rows, index, strict=True))
            numbers, dims, attributes, meant = stored(values[box], names, forms[k], dialect)
            form = "NETCDF3_CLASSIC" if forms[k]["classic"] else "NETCDF4"
            nca_files.fragment(f"{folder}/{k}.nc", "tas", numbers, dims, attributes, format=form)
            expected[box], uris[index] = meant, f"{k}.nc"
        write = files.cf if dialect == "CF-1.13" else files.cfa
        lengths = dict(zip(names, values.shape, strict=True))
        path = write(f"{folder}/a.nc", "tas", "f8", lengths, rows, uris, attributes={"units": "m"}, fill_value=-1e30)
        found = cfagg.read(path).tas
        np.testing.assert_allclose(found.values, expected, rtol=1e-14)
        chosen = expected
        for axis, one in reversed(list(enumerate(selection))):
            chosen = chosen[(slice(None),) * axis + (one,)]
        np.testing.assert_allclose(found.isel(dict(zip(names, selection, strict=True))).values, chosen, rtol=1e-14)
