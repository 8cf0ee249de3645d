"""Aggregation files that are written to object stores: their fragments beside them, and no file of this machine."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg import demo
from cfagg.cli.main import main
from cfagg.errors import LossError, OptionError, TargetError, TargetExistsError
from cfagg.storage import objects, s3_writing
from cfagg.storage.objects import ObjectStore
from cfagg.writing import aggregation_file
from tests import instruction_files, nca_files

pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")

VALUES = np.arange(12, dtype="f4").reshape(4, 3)


@pytest.fixture
def home(keyed, request) -> str:
    """A place in a bucket for one test alone."""
    return f"s3://{keyed.name}/aggregations/{abs(hash(request.node.name))}"


def computed(add: float = 0.0) -> xr.DataArray:
    return xr.DataArray(VALUES + add, dims=("t", "x"), name="tas", attrs={"units": "K"}).chunk(t=2)


@pytest.mark.parametrize("name", ["a.nca", "a.nc"])
def test_values_that_stand_nowhere_are_written_beside_the_file(home, name) -> None:
    report = cfagg.write(computed(), f"{home}/{name}")
    assert (report.target, report.fragments) == (f"{home}/{name}", 2)
    np.testing.assert_array_equal(cfagg.read(f"{home}/{name}")["tas"], VALUES)
    keys = sorted(ObjectStore(home, {}).listed())
    assert keys == [name, f"{name}.fragments/tas.0.0.nc", f"{name}.fragments/tas.1.0.nc"]


def test_a_file_is_replaced_with_its_fragments_and_only_if_it_may_be(home) -> None:
    cfagg.write(computed(), f"{home}/a.nc")
    with pytest.raises(TargetExistsError, match="--overwrite"):
        cfagg.write(computed(1), f"{home}/a.nc")
    np.testing.assert_array_equal(cfagg.read(f"{home}/a.nc")["tas"], VALUES)
    cfagg.write(computed(1), f"{home}/a.nc", overwrite=True)
    np.testing.assert_array_equal(cfagg.read(f"{home}/a.nc")["tas"], VALUES + 1)
    assert sorted(ObjectStore(home, {}).listed()) == [
        "a.nc",
        "a.nc.fragments-2/tas.0.0.nc",
        "a.nc.fragments-2/tas.1.0.nc",
    ]
    ObjectStore(home, {}).put("a.nc.fragments/of somebody else", b"x")
    with pytest.raises(TargetError, match="not fragments"):
        cfagg.write(computed(2), f"{home}/a.nc", overwrite=True)
    np.testing.assert_array_equal(cfagg.read(f"{home}/a.nc")["tas"], VALUES + 1)


def test_an_object_is_never_replaced_by_a_file_that_refers_to_it(home) -> None:
    ObjectStore(home, {}).put("a.nc", demo.sample("test1.nc"))
    with pytest.raises(TargetError, match="was not replaced: what is written refers to it"):
        cfagg.write(cfagg.read(f"{home}/a.nc"), f"{home}/a.nc", overwrite=True)
    assert ObjectStore(home, {}).read("a.nc") == demo.sample("test1.nc").read_bytes()


@pytest.mark.parametrize(
    ("moment", "exists"),
    [*itertools.product(["_fragments_there", "_write_here", "_check_references"], [True, False]), ("_used", True)],
)
def test_of_two_who_replace_a_file_at_once_one_does_and_the_other_is_told(home, monkeypatch, moment, exists) -> None:
    if exists:
        cfagg.write(computed(), f"{home}/a.nc")
    step = getattr(aggregation_file, moment)

    def later(*args):
        monkeypatch.setattr(aggregation_file, moment, step)
        cfagg.write(computed(1), f"{home}/a.nc", overwrite=True)
        return step(*args)

    monkeypatch.setattr(aggregation_file, moment, later)
    with pytest.raises(TargetExistsError, match="another process is writing there"):
        cfagg.write(computed(2), f"{home}/a.nc", overwrite=True)
    np.testing.assert_array_equal(cfagg.read(f"{home}/a.nc")["tas"], VALUES + 1)
    assert len(list(ObjectStore(home, {}).listed())) == 3  # nothing of the other is left


def test_a_fragment_that_is_too_large_for_one_request_is_refused_and_nothing_is_left(home, monkeypatch) -> None:
    monkeypatch.setattr(objects, "_AT_ONCE", 1000)
    with pytest.raises(
        TargetError, match=r"tas\.\d\.0\.nc was not written: it has [\d,]+ bytes, .* at most 1,000; divide"
    ):
        cfagg.write(computed(), f"{home}/a.nc")
    assert not list(ObjectStore(home, {}).listed())


def test_a_large_object_has_no_more_parts_than_a_server_takes(home, monkeypatch) -> None:
    monkeypatch.setattr(s3_writing, "_PARTS", 2)
    store = ObjectStore(home, {})
    body = bytes(range(256)) * 60_000  # 15.4 MB, which would be three parts
    store.put("large", body)
    assert store.part("large", 0, 1).tag.endswith('-2"')
    assert store.read("large") == body


def test_fragments_that_the_file_in_place_of_another_refers_to_stay(home) -> None:
    cfagg.write(computed(), f"{home}/a.nc")
    cfagg.convert(f"{home}/a.nc", f"{home}/a.nc", to="CFA-0.6.2", overwrite=True)
    np.testing.assert_array_equal(cfagg.read(f"{home}/a.nc")["tas"], VALUES)
    cfagg.write(cfagg.read(f"{home}/a.nc").isel(t=slice(2, 4)), f"{home}/a.nc", overwrite=True)
    np.testing.assert_array_equal(cfagg.read(f"{home}/a.nc")["tas"], VALUES[2:])


def test_a_translation_refers_to_the_fragments_where_they_are(home, keyed, tmp_path, capsys) -> None:
    made = nca_files.simple(tmp_path, VALUES, ["t", "x"], [[0, 1, 4], [0, 3]], "tas", {"units": "K"})
    prefix = home.partition(f"{keyed.name}/")[2]
    keyed.put(made, prefix)
    keyed.put(tmp_path / "parts", prefix)
    assert main(["convert", f"{home}/{made.name}", f"{home}/new.nc", "--to", "CF-1.13"]) == 0
    assert sorted(cfagg.open_aggregation(f"{home}/new.nc", "tas").partitions.files) == [
        f"{home}/parts/0_0.nc",
        f"{home}/parts/1_0.nc",
    ]
    np.testing.assert_array_equal(cfagg.read(f"{home}/new.nc")["tas"], VALUES)


def test_a_file_that_would_refer_to_this_machine_is_refused_and_nothing_is_written(home, tmp_path) -> None:
    made = nca_files.simple(tmp_path, VALUES, ["t", "x"], [[0, 1, 4], [0, 3]], "tas", {"units": "K"})
    for call in (
        lambda: cfagg.convert(made, f"{home}/a.nc", to="CF-1.13"),
        lambda: cfagg.write(cfagg.read(made), f"{home}/a.nc"),
    ):
        with pytest.raises(OptionError, match=r"was not written: variable 'tas' would refer to files of this machine"):
            call()
    assert list(ObjectStore(home, {}).listed()) == []


def test_errors_name_the_url_and_no_temporary_file(home, tmp_path) -> None:
    made = nca_files.simple(tmp_path, VALUES, ["t", "x"], [[0, 1, 4], [0, 3]], "tas", {"units": "K"})
    masked = cfagg.open_aggregation(made, "tas")
    with pytest.raises(OptionError) as caught:
        cfagg.write(masked, f"{home}/a.nc", relative_to=tmp_path)
    assert f"{home}/a.nc is a URL" in str(caught.value)
    nca_files.fragment(tmp_path / "p0.nc", "tas", VALUES[:1], ["time", "lat"], {})
    nca_files.fragment(tmp_path / "p1.nc", "tas", VALUES[1:].T, ["lat", "time"], {})
    uris = [["p0.nc"], ["p1.nc"]]
    turned = instruction_files.cf(tmp_path / "b.nc", "tas", "f4", {"time": 4, "lat": 3}, [[1, 3], [3]], uris)
    with pytest.raises(LossError, match="was not written") as lost:
        cfagg.convert(turned, f"{home}/a.nc", to="CFA-0.6.2")
    assert f"{home}/a.nc" in str(lost.value)
    assert "cfagg-" not in str(lost.value)
