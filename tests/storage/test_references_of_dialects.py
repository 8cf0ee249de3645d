"""What an aggregation file may make a reader open, in each dialect: nothing outside its place that is not allowed."""

from __future__ import annotations

import re

import numpy as np
import pytest

import cfagg
from cfagg.errors import AccessError, CfaggError, ConventionError, UnsupportedError
from tests import instruction_files as files
from tests import nca_files

VALUES = np.arange(3.0)


def written(folder, dialect, reference, name="a.nc"):
    write = files.cf if dialect == "CF-1.13" else files.cfa
    return write(folder / name, "tas", "f8", {"t": 3}, [[3]], [reference])


def refused(path, error, **options):
    with pytest.raises(error) as caught:
        cfagg.read(path, **options).tas.load()
    return str(caught.value)


@pytest.fixture
def place(tmp_path):
    """A fragment outside the folder of the aggregation file."""
    nca_files.fragment(tmp_path / "outside.nc", "tas", VALUES, ["t"])
    inside = tmp_path / "inside"
    inside.mkdir()
    return inside


DIALECTS = pytest.mark.parametrize("dialect", ["CF-1.13", "CFA-0.6.2"])


@pytest.mark.few(4)
@DIALECTS
@pytest.mark.parametrize(
    "form", ["../outside.nc", "below/../../outside.nc", "file://{}/outside.nc", "FILE:{}/outside.nc"]
)
def test_a_path_that_leaves_the_folder_is_refused_with_what_admits_it(place, dialect, form):
    (place / "below").mkdir()
    path = written(place, dialect, form.format(place.parent))
    assert f"pass allow=['{place.parent}'] or" in refused(path, AccessError)
    assert f"pass allow=['{place.parent}'] or" in refused(path, AccessError, missing="fill")
    np.testing.assert_array_equal(cfagg.read(path, allow=[place.parent]).tas.values, VALUES)


@pytest.mark.parametrize("uri", ["%2e%2e/outside.nc", "..%2Foutside.nc", "x/%2E%2E/%2e%2e/outside.nc"])
def test_an_encoded_path_is_judged_decoded(place, uri):
    (place / "x").mkdir()
    path = written(place, "CF-1.13", uri)
    assert f"pass allow=['{place.parent}'] or" in refused(path, AccessError)


def test_an_encoded_slash_begins_no_absolute_path(place):
    path = written(place, "CF-1.13", f"{str(place.parent / 'outside.nc').replace('/', '%2F')}")
    with pytest.raises(CfaggError):
        cfagg.read(path, allow=[place.parent]).tas.load()


def test_an_absolute_path_of_cfa_is_refused_with_what_admits_it(place):
    path = written(place, "CFA-0.6.2", str(place.parent / "outside.nc"))
    assert f"pass allow=['{place.parent}'] or" in refused(path, AccessError)
    np.testing.assert_array_equal(cfagg.read(path, allow=[place.parent]).tas.values, VALUES)


def test_what_the_user_substitutes_is_judged_too(place):
    path = written(place, "CFA-0.6.2", "${base}outside.nc")
    moved = {"substitutions": {"base": f"{place.parent}/"}}
    assert f"pass allow=['{place.parent}'] or" in refused(path, AccessError, **moved)
    np.testing.assert_array_equal(cfagg.read(path, allow=[place.parent], **moved).tas.values, VALUES)


@DIALECTS
def test_a_link_that_leaves_the_folder_is_refused(place, dialect):
    (place / "link.nc").symlink_to(place.parent / "outside.nc")
    assert f"pass allow=['{place.parent}'] or" in refused(written(place, dialect, "link.nc"), AccessError)


@DIALECTS
@pytest.mark.parametrize(
    ("url", "prefix"),
    [
        ("http://127.0.0.1:9/data/a.nc", "http://127.0.0.1:9/data"),
        ("https://host.invalid/a/b%20c.nc", "https://host.invalid/a"),
        ("s3://bucket/key/a.nc", "s3://bucket/key"),
    ],
)
def test_a_url_is_refused_with_what_admits_it(place, dialect, url, prefix):
    assert f"pass allow=['{prefix}'] or" in refused(written(place, dialect, url), AccessError)


@pytest.mark.few(4)
@DIALECTS
@pytest.mark.parametrize(
    "uri",
    ["file://host/data/a.nc", "file:a.nc", "ftp://host/a.nc", "locally_meaningful_protocol:///UID", "FILE://c/x.nc"],
)
def test_a_uri_of_another_kind_opens_nothing(place, dialect, uri):
    path = written(place, dialect, uri)
    assert cfagg.open_aggregation(path, "tas").partitions.file_name(0) == uri
    assert "a URL of a kind that is not read" in refused(path, UnsupportedError)
    assert "a URL of a kind that is not read" in refused(path, UnsupportedError, missing="fill")


@pytest.mark.parametrize(
    ("dialect", "uri"),
    [("CF-1.13", "a%00b.nc"), ("CF-1.13", "file:///a%00.nc"), ("CFA-0.6.2", "file:///a%00.nc")],
)
def test_a_name_with_nul_is_refused(place, dialect, uri):
    assert "NUL" in refused(written(place, dialect, uri), AccessError)


@DIALECTS
def test_an_inner_aggregation_may_read_only_what_is_beside_it(place, dialect):
    below = place / "below"
    below.mkdir()
    nca_files.fragment(place / "p.nc", "tas", VALUES, ["t"])
    written(below, dialect, "../p.nc")
    assert re.search(r"below/a\.nc refers to '\.\./p\.nc'", refused(written(place, dialect, "below/a.nc"), AccessError))


def test_more_fragments_than_are_read_are_refused_before_they_are(place, monkeypatch):
    path = written(place, "CF-1.13", "p.nc")
    monkeypatch.setattr("cfagg.conventions.limits.MAX_VALUES", 0)
    assert "which describes fragments, has 1 values, at most 0 are read" in refused(path, ConventionError)
    monkeypatch.undo()
    monkeypatch.setattr("cfagg.conventions.limits.MAX_PARTITIONS", 0)
    assert "at most 0 are read" in refused(path, ConventionError)


def test_characters_beyond_what_is_read_are_refused_before_they_are(place, monkeypatch):
    path = files.cf(place / "a.nc", "tas", "f8", {"t": 3}, [[3]], ["p.nc"], characters=True)
    monkeypatch.setattr("cfagg.conventions.limits.MAX_CHARACTERS", 3)
    assert "characters, at most 3 are read" in refused(path, ConventionError)


@pytest.mark.parametrize("term", ["map", "uris", "identifiers"])
def test_a_feature_that_is_named_twice_is_refused(place, term):
    import netCDF4

    path = written(place, "CF-1.13", "p.nc")
    with netCDF4.Dataset(path, "a") as root:
        root["tas"].aggregated_data += f" {term}: fragment_map"
    assert f"the term '{term}:' occurs twice" in refused(path, ConventionError)


def test_a_map_of_a_million_fragments_that_are_not_there_is_refused(place):
    import netCDF4

    path = written(place, "CF-1.13", "p.nc")
    with netCDF4.Dataset(path, "a") as root:
        root.createDimension("many", 1_000_000)
        root.createDimension("one", 1)
        root.createVariable("ones", "i1", ("one", "many"), compression="zlib")[:] = 1
        root.createDimension("long", 1_000_000)
        files.aggregated(root, "pr", "f8", ["long"], "map: ones uris: fragment_uris identifiers: fragment_identifiers")
    with pytest.raises(ConventionError, match=r"has shape \(1,\), but the array of fragments has shape \(1000000,\)"):
        cfagg.open_aggregation(path, "pr")
