import dataclasses
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.api import summarising
from cfagg.api.summarising import summarise_aggregation
from cfagg.display.summary import ROWS, Listing
from cfagg.storage.access import Access
from tests.display import arrays


@given(st.integers(0, 40), st.integers(1, 15))
def test_a_listing_holds_both_ends_and_counts_the_rest(count, rows):
    listing = Listing.of(count, lambda i: i, rows)
    members = [*listing.first, *range(len(listing.first), count - len(listing.last)), *listing.last]
    assert members == list(range(count))
    assert len(listing.first) + len(listing.last) == min(count, rows)
    assert listing.omitted == max(0, count - rows)


def test_without_a_limit_a_listing_holds_all():
    assert Listing.of(100, lambda i: i, None).first == tuple(range(100))


def test_sizes_are_runs():
    a = summarise_aggregation(arrays.boxes()).aggregation
    assert [x.sizes.first for x in a.axes] == [((2, 1), (1, 1), (4, 1), (1, 1)), ((1, 1), (2, 1), (1, 4))]


def test_partitions_come_with_index_location_and_file():
    first = summarise_aggregation(arrays.series(3)).aggregation.partitions.first
    assert first[2].index == (2, 0, 0)
    assert first[2].location == ((24, 36), (0, 64), (0, 128))
    assert (first[2].file, first[2].address, first[2].missing) == ("data/tas_1952.nc", "tas", False)


def test_missing_partitions_are_counted_and_their_files_are_no_references():
    present = np.array([True, False, True, True])
    a = summarise_aggregation(arrays.cube(4, present=present)).aggregation
    assert a.missing_count == 1
    assert [p.missing for p in a.partitions.first] == [False, True, False, False]
    assert [r.file for r in a.references.first] == ["part0.nc", "part2.nc", "part3.nc"]


def test_an_aggregation_in_memory_tells_nothing_about_access():
    assert summarise_aggregation(arrays.series(1)).aggregation.references.first[0].access is None


@pytest.mark.parametrize(
    ("file", "access", "allow"),
    [
        ("a.nc", "inside", None),
        ("sub/../a.nc", "inside", None),
        ("/far/b.nc", "needs allow", "/far"),
        ("http://x.org/d/a.nc", "needs allow", "http://x.org/d"),
        ("ftp://x.org/a.nc", "refused", None),
        ("a\0.nc", "refused", None),
        ("", "refused", None),
    ],
)
def test_access_of_a_reference(tmp_path, file, access, allow):
    policy = Access(str(tmp_path / "x.nca"))
    (found,) = summarising.references(arrays.series(1, names=[file]), policy)
    assert (found.access, found.allow) == (access, allow)
    assert bool(found.reason) is (access == "refused")


def test_allowing_what_is_named_admits_the_reference(tmp_path):
    aggregation = arrays.series(1, names=["../../other/b.nc"])
    (found,) = summarising.references(aggregation, Access(str(tmp_path / "x.nca")))
    (again,) = summarising.references(aggregation, Access(str(tmp_path / "x.nca"), [found.allow]))
    assert again.access == "inside"


def test_units_and_calendar_stand_among_the_attributes():
    assert summarise_aggregation(arrays.series(1)).attributes == {"standard_name": "air_temperature", "units": "K"}


def test_a_million_partitions_are_summarised_without_an_object_each():
    aggregation = arrays.of_a_million(100, 100, 100)
    start = time.process_time()
    a = summarise_aggregation(aggregation).aggregation
    assert len(a.partitions.first) + len(a.partitions.last) == ROWS
    assert a.partition_count == a.references.count == 1_000_000
    # A loop over partitions takes several seconds; this bound is far from both.
    assert time.process_time() - start < 2


def test_an_empty_dimension_has_no_partitions():
    from cfagg.model import Aggregation, Grid, Layout, Partitions

    empty = Aggregation("e", ("t",), (0,), "f4", Grid([[0]]), Partitions.build(0, layouts=[Layout(("t",))]))
    a = summarise_aggregation(empty).aggregation
    assert (a.partition_count, a.matrix_shape, a.axes[0].sizes.first) == (0, (0,), ())


@pytest.mark.parametrize("file", ["a.pp", "/far/a.pp"])
def test_a_fragment_in_a_format_that_is_not_read_is_not_inside(tmp_path, file):
    aggregation = arrays.series(1, names=[file])
    layouts = [dataclasses.replace(x, format="GRIB") for x in aggregation.partitions.layouts]
    aggregation = dataclasses.replace(
        aggregation, partitions=dataclasses.replace(aggregation.partitions, layouts=layouts)
    )
    (found,) = summarising.references(aggregation, Access(str(tmp_path / "x.nca")))
    assert found.access == "not readable"
    assert "'GRIB'" in found.reason
