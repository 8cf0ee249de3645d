import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from cfagg.api.summarising import summarise_aggregation
from cfagg.display.as_json import encode, file_json, references_json
from cfagg.display.summary import FileSummary, GroupSummary, ReferenceSummary
from tests.display import arrays


def whole(variable):
    return FileSummary("x.nca", "NETCDF4", (GroupSummary("/", {}, (), (variable,), ()),))


def refuse(constant):
    raise AssertionError(constant)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.1), 0.1),
        (np.array([0.1, np.nan, -np.inf], "f4"), [0.1, "NaN", "-Infinity"]),
        (np.array([[1, 2], [3, 4]], "i2"), [[1, 2], [3, 4]]),
        (np.int64(2**62), 2**62),
        (np.array(["a"], object), ["a"]),
        (b"ab\xff", "ab\\xff"),
        (np.bool_(True), True),
        (None, None),
    ],
)
def test_attributes_become_what_json_has(value, expected):
    assert encode(value) == expected


@given(nps.arrays(st.sampled_from(["f4", "f8", "i1", "u8"]), st.integers(0, 5)))
def test_arrays_of_numbers_come_back_exactly(array):
    found = json.loads(json.dumps(encode(array), allow_nan=False))
    back = np.array([float(x) if isinstance(x, str) else x for x in found], array.dtype)
    np.testing.assert_array_equal(back, array)


@given(st.text(st.characters()))
def test_output_is_ascii_without_control_characters_and_names_come_back(name):
    text = references_json("x", [("v", [ReferenceSummary(name, 1, "inside")])])
    assert all(" " <= c <= "~" or c == "\n" for c in text)
    assert json.loads(text)["variables"][0]["references"][0]["file"] == name


@pytest.mark.full
def test_a_million_partitions_make_a_short_document():
    text = file_json(whole(summarise_aggregation(arrays.of_a_million(100, 100, 100))))
    assert len(text) < 20_000
    partitions = json.loads(text, parse_constant=refuse)["groups"][0]["variables"][0]["aggregation"]["partitions"]
    assert partitions["count"] == 1_000_000
    assert partitions["last"][-1]["index"] == [99, 99, 99]


def test_the_form_is_the_one_documented():
    found = json.loads(file_json(whole(summarise_aggregation(arrays.series(1)))))
    variable = found["groups"][0]["variables"][0]
    a = variable["aggregation"]
    assert list(found) == ["form", "form_version", "path", "format", "groups"]
    assert list(found["groups"][0]) == ["path", "attributes", "dimensions", "variables", "private", "unreadable"]
    assert list(variable) == ["name", "dimensions", "shape", "dtype", "attributes", "aggregation"]
    assert list(a) == [
        "partition_count", "missing_count", "matrix_shape", "axes", "partitions", "layouts", "references", "dialect",
    ]  # fmt: skip
    assert list(a["axes"][0]) == ["dimension", "size", "partitions", "increasing", "sizes"]
    assert list(a["partitions"]["first"][0]) == [
        "index", "location", "file", "address", "offset", "part", "layout", "missing", "value",
    ]  # fmt: skip
    assert list(a["layouts"]["first"][0]) == [
        "dimensions", "reversed", "units", "calendar", "dtype", "fill", "scale_factor", "add_offset", "packing",
        "format", "shape", "partitions", "endian",
    ]  # fmt: skip
    assert list(a["references"]["first"][0]) == ["file", "partitions", "access", "allow", "reason"]
