"""By what the arrays of an accumulation are known: each thing that is compared, by itself."""

from __future__ import annotations

import dataclasses

import pytest

from cfagg.accumulation.integrity import CheckedArray, checked, is_sealed, read_stored, sealed
from cfagg.accumulation.opening import open_group
from cfagg.errors import FragmentReadError
from cfagg.formats.zarr.metadata import open_array
from tests.accumulation.test_group import build, folder

NAME = "acc_time"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """An array of a group, what the group says of its arrays, and the array of checksums."""
    store = tmp_path_factory.mktemp("store")
    build(store)
    group = open_group(store, "tas")
    checks = group.extra.checks
    book = checked(open_array(folder(store), checks.array), checks, None, [])
    return open_array(folder(store), NAME), checks, book


def problems(array, checks, book):
    found = []
    checked(array, checks, book, found)
    return [p.message for p in found]


def test_an_array_as_it_was_written_has_no_problem(opened):
    array, checks, book = opened
    assert problems(array, checks, book) == []
    assert read_stored(checked(array, checks, book, []), (0, 0, 0)).ndim == 3


def test_an_array_of_another_build_is_named(opened):
    array, checks, book = opened
    (found,) = problems(array, dataclasses.replace(checks, build="other"), book)
    assert found == f"is of build {checks.build!r}, but the group is of build 'other'"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((10**6, 0, 0), "checksums would be 1000001 to 1000002, but there are"),
        ((0, -1, 0), "but checksums of"),
        ((0, 0, 1), "its metadata are not those that were written"),
    ],
)
def test_other_checksums_than_those_of_its_chunks_and_metadata_are_named(opened, change, said):
    array, checks, book = opened
    place = tuple(a + b for a, b in zip(checks.places[NAME], change, strict=True))
    (found,) = problems(array, dataclasses.replace(checks, places={**checks.places, NAME: place}), book)
    assert said in found


def test_an_array_of_which_no_checksums_are_kept_is_named_and_not_read(opened):
    array, checks, book = opened
    found = []
    without = checked(array, dataclasses.replace(checks, places={}), book, found)
    assert [p.message for p in found] == ["the group has no checksums of it"]
    with pytest.raises(FragmentReadError, match="has no checksum"):
        read_stored(without, (0, 0, 0))


def test_a_chunk_that_has_another_checksum_is_not_read(opened):
    array, checks, book = opened
    right = checked(array, checks, book, [])
    crc = right.crc((0, 0, 0))
    values = {f.name: getattr(right, f.name) for f in dataclasses.fields(CheckedArray)} | {"book": None}
    read_stored(CheckedArray(**values | {"own": (crc,) * array.grid.size}), (0, 0, 0))
    with pytest.raises(FragmentReadError, match="does not have the checksum of what was written"):
        read_stored(CheckedArray(**values | {"own": (crc ^ 1,) * array.grid.size}), (0, 0, 0))


def test_attributes_are_sealed_by_a_checksum_of_themselves():
    attributes = sealed({"_ACCUMULATION_GROUP": {"x": {}}, "cfagg": {"a": 1}, "title": "free"})
    assert is_sealed(attributes)
    assert is_sealed({**attributes, "title": "changed"})
    assert not is_sealed({**attributes, "_ACCUMULATION_GROUP": {"x": {"y": 1}}})
    assert not is_sealed({**attributes, "cfagg": {**attributes["cfagg"], "a": 2}})
    assert not is_sealed({"_ACCUMULATION_GROUP": {}})
