"""Every dialect that is read, translated into each that is written."""

from __future__ import annotations

import warnings
from dataclasses import replace

import netCDF4
import numpy as np
import pytest

import cfagg
from tests.writing.every_dialect import READ, RICH, WRITTEN, losses, write

#: What is lost of the rich aggregation of each dialect in each other.
LOST = {
    **{(d, to): {"part of a sub-array", "order of dimensions", "direction of dimensions", "units"}
       for d in READ if d.startswith(("NCA", "CFA-0.3", "CFA-0.4")) for to in ("CFA-0.6.2", "CF-1.13")},
    **{("CFA-0.6.2", to): {"versions of fragments", "term of its own"} for to in WRITTEN if to != "CFA-0.6.2"},
    **{("CF-1.13", to): {"unique value"} for to in WRITTEN if to != "CF-1.13"},
}  # fmt: skip


def model(path):
    """Return what a file describes, whatever the dialect: without its marks and the directions only NCA has."""
    found = cfagg.open_aggregation(path, "tas")
    partitions = found.partitions
    used = sorted(set(partitions.layout.tolist()))
    layouts = tuple(replace(partitions.layouts[k], format=None) for k in used)
    kept = ("cf_role", "dimension_directions", "fragment_format")
    attributes = {k: v for k, v in found.attributes.items() if k not in kept}
    return replace(found, attributes=attributes, packs=True, partitions=replace(partitions, layouts=layouts))


@pytest.mark.few(14)
@pytest.mark.parametrize("to", WRITTEN)
@pytest.mark.parametrize("dialect", READ)
def test_a_plain_aggregation_survives_every_translation(tmp_path, dialect, to):
    path = write(tmp_path, dialect, rich=False)
    assert cfagg.open_aggregation(path, "tas").dialect == dialect
    assert losses(path, to) == []
    target = tmp_path / f"lost-{to}.nc"
    found = cfagg.open_aggregation(target, "tas")
    assert found.dialect == to
    np.testing.assert_array_equal(cfagg.read(target)["tas"].values, cfagg.read(path)["tas"].values)
    assert model(target) == model(path)


@pytest.mark.parametrize("dialect", READ)
def test_reports_of_conversions_name_the_dialect_that_was_read(tmp_path, dialect):
    report = cfagg.convert(write(tmp_path, dialect, rich=False), tmp_path / "a.zarr")
    assert report.dialects == (dialect,)
    assert str(report).endswith(f"stored), from {dialect}")


@pytest.mark.few(5)
@pytest.mark.parametrize("to", WRITTEN)
@pytest.mark.parametrize("dialect", [d for d in READ if d != "CFA-0.5"])
def test_what_a_dialect_alone_has_is_lost_as_listed_and_values_are_kept_by_fragments(tmp_path, dialect, to):
    path = write(tmp_path, dialect, rich=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lost = losses(path, to)
        values = cfagg.read(path)["tas"].values
    assert {loss.what for loss in lost} == LOST.get((dialect, to), set())
    if not lost:
        assert model(tmp_path / f"lost-{to}.nc") == model(path)
        return
    on_loss = "drop" if {loss.what for loss in lost} == {"versions of fragments", "term of its own"} else "materialise"
    target = tmp_path / "kept.nc"
    if on_loss == "drop":
        report = cfagg.convert(path, target, to=to, on_loss="drop")
        assert {loss.what for loss in report.losses} == LOST[dialect, to]
        assert cfagg.open_aggregation(target, "tas").partitions.file_name(0) == "a.nc"  # as the first version is gone
        np.testing.assert_array_equal(cfagg.read(target)["tas"].values, values)
        return
    report = cfagg.convert(path, target, to=to, on_loss="materialise")
    assert report.fragments == len({loss.partition for loss in lost})
    # In CFA-0.6.2 a fragment of missing values is one that is missing.
    np.testing.assert_array_equal(cfagg.read(target, missing="fill")["tas"].values, values)


def test_every_dialect_has_an_example_of_its_own():
    assert set(RICH) == set(READ)


@pytest.mark.few(3)
@pytest.mark.parametrize("to", WRITTEN)
@pytest.mark.parametrize("dialect", ["CFA-0.6.2", "CF-1.13"])
def test_what_describes_fragments_in_the_source_is_no_variable_of_the_target(tmp_path, dialect, to):
    path = write(tmp_path, dialect, rich=False)
    cfagg.convert(path, tmp_path / "b.nc", to=to, on_loss="drop")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        told = " ".join(str(file["tas"].getncattr(n)) for n in file["tas"].ncattrs())
        assert [n for n in file.variables if n != "tas" and n not in told] == []
