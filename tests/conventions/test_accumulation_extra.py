"""The attribute ``cfagg`` of an accumulation group: what ZEP 5 has no place for."""

import copy
import dataclasses
import json
import math
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings

from cfagg.conventions import accumulation_record
from cfagg.conventions.accumulation import Names, parse_extra, write_extra
from cfagg.conventions.accumulation_fields import Place
from cfagg.conventions.accumulation_model import Combinations, Table
from cfagg.conventions.accumulation_record import (
    Excluded,
    Growth,
    MagnitudesRecord,
    MaskRecord,
    OutliersRecord,
    Source,
    WeightsRecord,
)
from cfagg.conventions.findings import Findings
from cfagg.errors import ConventionError, LimitError, UnsupportedError
from cfagg.model import Grid
from tests.conventions.accumulations import example, extras
from tests.effort import examples


@settings(max_examples=examples(60))
@given(extras())
def test_what_is_written_is_read_back(extra):
    text = json.dumps(write_extra(extra), allow_nan=False)
    assert parse_extra(json.loads(text)) == extra


def test_numbers_that_json_does_not_have_are_written_as_zarr_writes_them():
    extra = dataclasses.replace(example(), mask=MaskRecord((math.nan, math.inf, -math.inf), None, math.inf))
    mask = write_extra(extra)["mask"]
    assert mask["fills"] == ["NaN", "Infinity", "-Infinity"]
    assert mask["valid_max"] == "Infinity"
    assert hash(parse_extra(write_extra(extra))) == hash(extra)


def test_numbers_of_numpy_are_written_as_pythons_own():
    extra = dataclasses.replace(
        example(),
        excluded=Excluded(np.int64(3)),
        mask=MaskRecord((np.int16(-1), np.float32(0.5))),
        stride=Table({"time": np.int64(2)}),
    )
    written = json.loads(json.dumps(write_extra(extra)))
    assert written["excluded"]["missing"] == 3
    assert written["mask"]["fills"] == [-1, 0.5]


def test_the_grid_of_the_source_is_kept_with_runs_of_chunks():
    grid = Grid.from_sizes([(90, 45, 45), (7,)])
    source = Source.of("tas", ("time", "lat"), grid, "f4", Table(), 9)
    assert source.chunks == (((90, 1), (45, 2)), ((7, 1),))
    assert source.grid == grid
    regular = Source.of("tas", ("time",), Grid.regular((10,), (4,)), "f4", Table(), 9)
    assert regular.chunks == (4,)
    assert regular.grid == Grid.regular((10,), (4,))


def test_a_million_chunks_of_one_length_are_written_in_one_run():
    source = Source.of("tas", ("t",), Grid.from_sizes([np.full(10**6, 3)]), "f4", Table(), 9)
    assert source.chunks == (((3, 10**6),),)


def test_the_attribute_can_be_pickled_and_hashed():
    copied = pickle.loads(pickle.dumps(example()))
    assert copied == example()
    assert hash(copied) == hash(example())


def test_keys_that_are_not_known_do_not_matter():
    assert parse_extra({**write_extra(example()), "colour": "green"}) == example()


def test_a_newer_version_is_refused_by_its_number():
    with pytest.raises(UnsupportedError, match=r"version 4 .* reads version 3"):
        parse_extra({**write_extra(example()), "version": 4})


def test_a_group_that_grows_has_a_version_of_its_own_and_needs_no_edges_along_its_dimension():
    grown = dataclasses.replace(example(), growth=Growth("time", (3, 1, 2, 5), (7, 0, 9, 4)), boundaries=Table())
    written = write_extra(grown)
    assert (written["version"], write_extra(example())["version"]) == (3, 2)
    assert parse_extra(written) == grown
    with pytest.raises(ConventionError, match="version 3 expected"):
        parse_extra({**written, "version": 2})
    with pytest.raises(ConventionError, match="no such dimension"):
        parse_extra({**written, "growth": {**written["growth"], "dim": "level"}})
    with pytest.raises(ConventionError, match="4 numbers"):
        parse_extra({**written, "growth": {**written["growth"], "stamps": [1, 2]}})


def changed(path, value):
    """The example as it is written, with one value changed; `...` removes it."""
    doc = copy.deepcopy(write_extra(example()))
    *way, last = path
    place = doc
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return doc


def problems(doc, **kwargs):
    with pytest.raises(ConventionError) as caught:
        parse_extra(doc, source="s.zarr/tas", **kwargs)
    assert str(caught.value).startswith("s.zarr/tas: ")
    return [str(p) for p in caught.value.problems]


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("version",), ..., "cfagg.version: missing"),
        (("version",), "1", "cfagg.version: an integer of at least 1 expected, found '1'"),
        (("version",), True, "cfagg.version: an integer of at least 1 expected, found true"),
        (("source",), ..., "cfagg.source: missing"),
        (("source",), [], "cfagg.source: an object expected, found []"),
        (("source", "name"), 3, "cfagg.source.name: text expected, found 3"),
        (("source", "dims"), ["time", "time"], "cfagg.source.dims[1]: the dimension 'time' occurs twice"),
        (("source", "dims", 0), None, "cfagg.source.dims[0]: text expected, found null"),
        (("source", "shape"), [12], "cfagg.source: 2 dims, 1 sizes in shape and 2 chunks"),
        (("source", "shape", 0), -1, "cfagg.source.shape[0]: an integer of at least 0 expected, found -1"),
        (("source", "shape", 1), 8, "cfagg.source.chunks: shape[1]: size 8 does not end in the last cell"),
        (("source", "chunks", 0), 0, "cfagg.source.chunks[0]: a length of at least 1 or a list"),
        (("source", "chunks", 1, 0), [3], "cfagg.source.chunks[1][0]: a pair [length, run]"),
        (("source", "chunks", 1, 0), [0, 2], "cfagg.source.chunks[1][0]: a pair [length, run]"),
        (("source", "chunks", 1), [[1, 10**15]], "cfagg.source.chunks[1]: more than"),
        (("source", "chunks", 1), [[10**400, 1]], "cfagg.source.chunks[1]: more than"),
        (("source", "chunks"), [1] * 1000, "cfagg.source.chunks: 1000 entries; at most 64"),
        (("source", "dtype"), "string", "cfagg.source.dtype: a numeric type expected"),
        (("checks", "build"), "../../x", "cfagg.checks.build: 8 to 128 hexadecimal digits"),
        (("packing", "scale_factor"), "NaN", "cfagg.packing.scale_factor: a finite number expected"),
        (("packing", "add_offset"), 10**400, "cfagg.packing.add_offset: a finite number expected"),
        (("packing",), 1, "cfagg.packing: an object expected, found 1"),
        (("mask", "fills"), -1, "cfagg.mask.fills: a list expected, found -1"),
        (("mask", "fills"), ["x"], "cfagg.mask.fills[0]: a number,"),
        (("mask", "valid_min"), ..., "cfagg.mask.valid_min: missing"),
        (("mask", "unsigned"), 0, "cfagg.mask.unsigned: true or false expected, found 0"),
        (("weights",), ..., "cfagg.weights: missing"),
        (("sums",), "float32", "cfagg.sums: one of 'float64', 'int64', 'double-double' expected"),
        (("stride", "time"), 0, "cfagg.stride.time: an integer of at least 1 expected, found 0"),
        (("stride", "time"), 2.0, "cfagg.stride.time: an integer of at least 1 expected, found 2.0"),
        (("excluded", "missing"), 2**63, "cfagg.excluded.missing: an integer"),
        (("low",), {"acc": "a/b"}, "cfagg.low.acc: the name of an array of the group expected"),
        (("counts",), {}, "cfagg.counts: a list expected, found {}"),
        (("statistics", 0, "level"), -1, "cfagg.statistics[0].level: an integer of at least 0"),
        (("statistics", 0, "dims"), ["lat", "time"], "cfagg.statistics[0].dims: expected the dimensions in the order"),
        (("statistics", 0, "dims"), ["x"], "cfagg.statistics[0].dims[0]: the source has no dimension 'x'"),
        (("statistics", 0, "min"), 3, "cfagg.statistics[0].min: the name of an array"),
        (("stamps",), ".zattrs", "cfagg.stamps: the name of an array of the group expected"),
        (("boundaries", "time"), None, "cfagg.boundaries.time: the name of an array"),
        (("created_by",), None, "cfagg.created_by: text expected, found null"),
        # What is well formed and contradicts itself:
        (("stride",), {"time": 1, "x": 1}, "cfagg.stride.x: the source has no dimension 'x'"),
        (("boundaries",), {}, "cfagg.boundaries: edges are given along [], strides along ['time']"),
        (("statistics", 0, "level"), 1, "cfagg.statistics[0]: level 1 of ['time', 'lat'] does not follow level 0"),
        (("statistics", 0, "dims"), [], "cfagg.statistics[0].dims: statistics along no dimension"),
        (("statistics", 0, "count"), ..., "cfagg.statistics[0]: statistics without their count"),
        (("source", "dtype"), "float32", "cfagg.sums: int64 sums need integers without weights"),
        (("low",), {"acc": "acc_low"}, "cfagg.low: low parts of int64 sums"),
        (("counts",), [{"dims": ["time"], "array": "c"}], "cfagg.counts: counts beside sums without weights"),
        (("stamps",), "boundary_time", "cfagg: the array 'boundary_time' is named twice"),
    ],
)
def test_one_wrong_value_is_told_with_its_key_path(path, value, problem):
    found = problems(changed(path, value))
    assert any(p.startswith(problem) for p in found), found


def test_all_wrong_values_are_told_at_once():
    doc = changed(("mask", "unsigned"), 0)
    doc["stride"]["time"] = 0
    doc["source"]["shape"][0] = None
    assert len(problems(doc)) == 3


@pytest.mark.parametrize("value", [None, [], 7, "x"])
def test_a_value_that_is_no_object_is_refused(value):
    assert "an object expected" in problems(value)[0]


def test_a_level_and_a_count_stand_once():
    doc = write_extra(example())
    doc["statistics"] *= 2
    assert any("level 0 of ['time', 'lat'] occurs twice" in p for p in problems(doc))
    doc = write_extra(example())
    doc["counts"] = [{"dims": ["time"], "array": "a"}, {"dims": ["time"], "array": "b"}]
    assert any("counts of ['time'] occur twice" in p for p in problems(doc))


def test_each_of_many_counts_is_looked_at_once(monkeypatch):
    seen = []

    class Entry:
        array = "a"

        def __init__(self, number):
            self._dims = (f"d{number}",)

        @property
        def dims(self):
            seen.append(self._dims)
            return self._dims

    entries = tuple(map(Entry, range(500)))
    monkeypatch.setattr(accumulation_record, "_COUNTS", SimpleNamespace(read=lambda *_: entries))
    assert len(accumulation_record._read_counts([], Place((), Findings("a")))) == 500
    assert len(seen) < 5 * 500


UNWEIGHTED = Combinations({("time",): Names("acc_time", None, "acc_wt_time")})
WEIGHTED = Combinations({("time",): Names(None, "acc_time", "acc_wt_time")})


def test_both_attributes_of_a_group_must_agree_on_weights():
    assert parse_extra(write_extra(example()), combinations=UNWEIGHTED) == example()
    found = problems(write_extra(example()), combinations=WEIGHTED)
    assert found == [
        "_ACCUMULATION_GROUP.time: _DATA_UNWEIGHTED and _WEIGHTS expected, found ['_DATA_WEIGHTED', '_WEIGHTS']"
    ]
    weighted = dataclasses.replace(example(), sums="float64", weights=WeightsRecord("area", None, "w", ("lat",)))
    assert parse_extra(write_extra(weighted), combinations=WEIGHTED) == weighted
    assert "_DATA_WEIGHTED and _WEIGHTS expected" in problems(write_extra(weighted), combinations=UNWEIGHTED)[0]


def test_both_attributes_of_a_group_must_agree_on_dimensions_and_arrays():
    extra = dataclasses.replace(
        example(), sums="double-double", low=Table({"other": "other_low"}), counts=Table(), stamps="acc_lat"
    )
    both = Combinations({**UNWEIGHTED, ("lat",): Names("acc_lat", None, "acc_wt_lat")})
    assert problems(write_extra(extra), combinations=both) == [
        "cfagg: the array 'acc_lat' is named twice",
        "cfagg.stride.lat: missing; _ACCUMULATION_GROUP.lat is accumulated along it",
        "cfagg.low.other: low part of an array that the group does not name",
    ]
    weighted = dataclasses.replace(
        example(),
        sums="float64",
        weights=WeightsRecord("area", None, "w", ("lat",)),
        counts=Table({("lat",): "cnt_lat"}),
    )
    found = problems(write_extra(weighted), combinations=WEIGHTED)
    assert found == ["cfagg.counts: counts of ['lat'], which the group does not name"]


def test_what_could_not_be_read_back_is_not_written():
    with pytest.raises(ConventionError, match="the name of an array of the group expected"):
        write_extra(dataclasses.replace(example(), stamps="a/b"))


def test_lists_without_end_are_refused():
    doc = write_extra(example())
    doc["statistics"] = [{}] * 10**5
    assert any("cfagg.statistics: 100000 entries; at most" in p for p in problems(doc))
    assert LimitError is not None


def with_outliers():
    """The example with sums of real numbers, from which cells are kept out."""
    return dataclasses.replace(
        example(),
        sums="float64",
        magnitudes=MagnitudesRecord(0.25, 1e6),
        outliers=OutliersRecord(2.0**20, "outlier_positions", "outlier_values"),
    )


def test_outliers_are_written_and_read_back_and_the_former_version_is_refused():
    written = write_extra(with_outliers())
    assert parse_extra(written) == with_outliers()
    with pytest.raises(ConventionError, match="version 2 expected"):
        parse_extra({**written, "version": 1})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("magnitudes", {"small": 2.0, "largest": 1.0, "heaviest": 1.0}, "small <= largest"),
        ("magnitudes", {"small": 0.0, "largest": 1e9, "heaviest": 1.0}, "beyond the limit"),
        ("outliers", {"limit": 0, "positions": "a", "values": "b"}, "above 0"),
        ("outliers", {"limit": 1e9, "positions": "a", "values": "a"}, "named twice"),
        ("sums", "int64", "int64 sums are exact"),
    ],
)
def test_outliers_and_magnitudes_that_contradict_themselves_are_refused(key, value, message):
    with pytest.raises(ConventionError, match=message):
        parse_extra({**write_extra(with_outliers()), key: value})
