"""NCA 0.1: what well-formed attributes become, and back."""

import json
import pathlib
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings

from cfagg.conventions import boxes, nca, nca_write, part
from cfagg.errors import ConventionError, RepairWarning
from cfagg.model import Aggregation, Grid, Layout, Partitions
from tests import oracles, strategies
from tests.effort import examples

SIZES = {"time": 48, "lat": 64, "lon": 128}

EXAMPLE_2 = """{directions': {'lat': false,
'time': true,
'lon': true
},
'pshape': [2],
'pdimensions': ['time'],
'Partitions': [{'index': [0],
'data': {'file': '/home/david/test1.nc',
'shape': [12, 64, 128],
'ncvar': 'tas'
},
'location': [[0, 12], [0, 64], [0, 128]],
'format': 'netCDF'
},
{'index': [1],
'data': {'file': '/home/david/test2.nc',
'shape': [36, 64, 128],
'ncvar': 'tas2'
},
'location': [[12, 48], [0, 64], [0, 128]],
'format': 'netCDF'
}
]
}"""

EXAMPLE_3 = EXAMPLE_2.replace(
    """'data': {'file': '/home/david/test1.nc',
'shape': [12, 64, 128],
'ncvar': 'tas'
}""",
    """'units' : 'K @ 273.15',
'dimensions': ['lon', 'time', lat'],
'directions': {'time': false},
'data': {'shape': [128, 12, 64],
'ncvar': 'nca_45sdf83745'
}""",
)


def parse(document, dims="time lat lon", sizes=SIZES, dtype="f4", **kwargs):
    text = document if isinstance(document, str | bytes) else json.dumps(document, ensure_ascii=False)
    return nca.parse("tas", {"units": "K", "nca_dimensions": dims, "nca_array": text}, dtype, sizes, **kwargs)


def record(index, location, **keys):
    data = {"shape": [b - a for a, b in location], "file": "a.nc", "ncvar": "tas", **keys.pop("data", {})}
    return {"index": index, "location": location, **keys, "data": data}


def document(*records, directions=None, pdimensions=("time",), pshape=(2,)):
    directions = {"time": True, "lat": True} if directions is None else directions
    return {
        "directions": directions,
        "pdimensions": list(pdimensions),
        "pshape": list(pshape),
        "Partitions": list(records),
    }


def two(**keys):
    """A master of time 5, lat 3 in two partitions; `keys` are those of the second."""
    return document(record([0], [[0, 2], [0, 3]]), record([1], [[2, 5], [0, 3]], **keys))


def parse_two(doc, **kwargs):
    return parse(doc, "time lat", {"time": 5, "lat": 3, "height": 1}, **kwargs)


def with_warnings(text, **kwargs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = parse(text, **kwargs)
    assert all(issubclass(w.category, RepairWarning) for w in caught)
    return result, [str(w.message) for w in caught]


# The text's examples


def test_example_2_as_printed_becomes_two_partitions_in_time():
    tas, _ = with_warnings(EXAMPLE_2)
    assert tas.dims == ("time", "lat", "lon")
    assert tas.shape == (48, 64, 128)
    assert tas.directions == (True, False, True)
    assert tas.grid == Grid([[0, 12, 48], [0, 64], [0, 128]])
    assert [tas.partitions.file_name(i) for i in range(2)] == ["/home/david/test1.nc", "/home/david/test2.nc"]
    assert [tas.partitions.address_name(i) for i in range(2)] == ["tas", "tas2"]
    assert tas.partitions.layouts == (Layout(("time", "lat", "lon"), format="netCDF"),)
    assert (tas.units, tas.calendar, tas.attributes) == ("K", None, {})


def test_example_2_as_printed_warns_once_per_kind_and_place():
    _, told = with_warnings(EXAMPLE_2)
    assert len(told) == 2
    assert "opening quote of 'directions' is missing (line 1 column 2)" in told[0]
    assert "there are single quotes instead of double quotes (27 strings, the first at line 1 column 16)" in told[1]


def test_example_3_as_printed_keeps_units_order_and_reversal_of_the_private_array():
    tas, told = with_warnings(EXAMPLE_3, private={"nca_45sdf83745": (("nca128", "nca12", "nca64"), (128, 12, 64))})
    assert tas.partitions.file_name(0) is None
    assert tas.partitions.address_name(0) == "nca_45sdf83745"
    assert tas.partitions.layout_of(0) == Layout(
        ("lon", "time", "lat"), (False, True, False), units="K @ 273.15", format="netCDF"
    )
    assert tas.partitions.layout_of(1) == Layout(("time", "lat", "lon"), format="netCDF")
    assert sum("opening quote" in t for t in told) == 2
    assert any("opening quote of 'lat' is missing (line 9 column 31)" in t for t in told)


def test_figure_1_needs_24_virtual_partitions_that_put_every_value_in_its_place():
    figure = boxes.aggregate("p", ("y", "x"), (8, 7), "i4", FIGURE_1)
    assert figure.grid == Grid([[0, 2, 3, 7, 8], [0, 1, 3, 4, 5, 6, 7]])
    assert len(figure.partitions) == 24
    written = nca_write.write(figure)
    read = nca.parse("p", written, "i4", {"y": 8, "x": 7})
    assert read == figure
    master = np.arange(56).reshape(8, 7)
    arrays = {(b.file, "v"): master[tuple(slice(*r) for r in b.location)] for b in FIGURE_1}
    assert np.array_equal(assemble(read, arrays), master)
    np.testing.assert_array_equal(
        oracles.nca_master(json.loads(written["nca_array"]), ["y", "x"], {"y": 8, "x": 7}, arrays), master
    )


FIGURE_1 = [
    boxes.Box(location, file=f"{k}.nc", address="v")
    for k, location in enumerate(
        [
            ((0, 2), (0, 1)),
            ((0, 2), (1, 4)),
            ((0, 2), (4, 7)),
            ((2, 3), (0, 6)),
            ((2, 7), (6, 7)),
            ((3, 7), (0, 3)),
            ((3, 7), (3, 6)),
            ((7, 8), (0, 4)),
            ((7, 8), (4, 5)),
            ((7, 8), (5, 7)),
        ]
    )
]


def assemble(aggregation, arrays):
    """The master array, from what the model says."""
    out = np.full(aggregation.shape, -1)
    partitions = aggregation.partitions
    for i, index in enumerate(np.ndindex(*aggregation.grid.matrix_shape)):
        layout = partitions.layout_of(i)
        data = arrays[partitions.file_name(i), partitions.address_name(i)]
        if layout.shape is not None:
            assert layout.shape == data.shape
        if partitions.part[i] >= 0:
            data = data[np.ix_(*part.parse(partitions.part_text(i), data.shape))]
        data = np.flip(data, [a for a, f in enumerate(layout.flipped) if f])
        span = aggregation.grid.extent(index)
        order = [layout.dims.index(d) for d in aggregation.dims if d in layout.dims]
        data = data.transpose(order + [a for a in range(data.ndim) if a not in order])
        out[tuple(slice(*r) for r in span)] = data.reshape([b - a for a, b in span])
    return out


# Any document


@settings(max_examples=examples(150))
@given(strategies.nca_documents())
def test_any_document_assembles_into_its_master_array(case):
    doc, dims, sizes, arrays, master = case
    np.testing.assert_array_equal(oracles.nca_master(doc, dims, sizes, arrays), master)
    np.testing.assert_array_equal(assemble(parse(doc, " ".join(dims), sizes), arrays), master)


@settings(max_examples=examples(75))
@given(strategies.nca_documents())
def test_parse_write_parse_is_the_identity_and_writing_is_byte_stable(case):
    doc, dims, sizes, _, _ = case
    first = parse(doc, " ".join(dims), sizes)
    written = nca_write.write(first)
    second = nca.parse("tas", {"units": "K", **written}, "f4", sizes)
    assert second == first
    assert nca_write.write(second) == written
    assert written["nca_array"].encode("utf-8")


@settings(max_examples=examples(50))
@given(strategies.nca_documents())
def test_the_printed_misprints_do_not_change_what_is_read(case):
    doc, dims, sizes, _, _ = case
    text = json.dumps(doc)
    single = re.sub(r'"((?:[^"\\]|\\.)*)"', lambda m: "'" + m[1].replace("'", "\\'").replace('\\"', '"') + "'", text)
    read, _ = with_warnings(single.replace("{'", "{", 1), dims=" ".join(dims), sizes=sizes)
    assert read == parse(doc, " ".join(dims), sizes)


# Single keys


def test_keys_are_written_in_the_order_of_the_text():
    keys = {
        "dimensions": ["lat", "time"],
        "format": "PP",
        "directions": {"lat": False},
        "units": "degC",
        "calendar": "julian",
    }
    data = {"shape": [6, 3], "dtype": "float", "file_offset": 7, "lbpack": 1, "scale_factor": 2.0, "add_offset": 1.5}
    written = json.loads(nca_write.write(parse_two(two(**keys, part="[(1, 6, 2), (0, 3, 1)]", data=data)))["nca_array"])
    assert list(written) == ["directions", "pdimensions", "pshape", "Partitions"]
    assert list(written["Partitions"][1]) == [
        "index", "location", "dimensions", "format", "directions", "units", "calendar", "part", "data",
    ]  # fmt: skip
    assert list(written["Partitions"][1]["data"]) == [
        "shape", "file", "dtype", "ncvar", "file_offset", "lbpack", "scale_factor", "add_offset",
    ]  # fmt: skip
    assert written["Partitions"][1]["data"] == {"file": "a.nc", "ncvar": "tas", **data}


def test_every_key_of_a_partition_reaches_the_model():
    keys = {
        "dimensions": ["lat", "time"],
        "format": "PP",
        "directions": {"lat": False},
        "units": "degC",
        "calendar": "julian",
    }
    data = {"shape": [6, 3], "dtype": "float", "file_offset": 7, "lbpack": 1, "scale_factor": 2, "add_offset": 1.5}
    partitions = parse_two(two(**keys, part="[(1, 6, 2), [0, 1, 2]]", data=data)).partitions
    assert partitions.layout_of(1) == Layout(
        ("lat", "time"),
        (True, False),
        units="degC",
        calendar="julian",
        dtype="float",
        scale_factor=2.0,
        add_offset=1.5,
        packing=1,
        format="PP",
        shape=(6, 3),
    )
    assert partitions.offset.tolist() == [-1, 7]
    assert partitions.part_text(1) == "[(1, 6, 2), (0, 3, 1)]"
    assert partitions.part_text(0) is None


def test_what_repeats_the_master_array_is_not_kept():
    plain = parse_two(two())
    spoken = two(dimensions=["time", "lat"], units="K", directions={"time": True}, part="[]")
    assert parse_two(spoken) == plain


def test_a_part_that_takes_everything_is_the_whole_sub_array():
    read = parse_two(two(part="[(0, 3, 1), [0, 1, 2]]")).partitions
    assert read.part_text(1) is None
    assert read.layout_of(1).shape is None


def test_only_the_difference_from_the_masters_direction_is_kept():
    doc = two(directions={"time": True, "lat": False})
    doc["directions"] = {"time": True, "lat": False}
    assert parse_two(doc).partitions.layout_of(1).flipped == (False, False)
    doc["directions"] = {"time": False, "lat": False}
    assert parse_two(doc).partitions.layout_of(1).flipped == (True, False)


def test_a_range_down_to_index_0_takes_it():
    doc = two(part="[(2, -1, -1), (0, 3, 1)]")
    assert parse_two(doc).partitions.part_text(1) == "[(2, -1, -1), (0, 3, 1)]"


def test_index_follows_pdimensions_not_the_master_order():
    records = [
        record([j, i], [[2 * i, 2 * i + 2], [3 * j, 3 * j + 3]], data={"file": f"{i}{j}.nc"})
        for j in range(3)
        for i in range(2)
    ]
    read = parse(document(*records, pdimensions=("lat", "time"), pshape=(3, 2)), "time lat", {"time": 4, "lat": 9})
    assert [read.partitions.file_name(k) for k in range(6)] == ["00.nc", "01.nc", "02.nc", "10.nc", "11.nc", "12.nc"]


def test_a_scalar_master_array_has_one_partition_and_a_bare_direction():
    doc = {"directions": False, "pdimensions": [], "pshape": [], "Partitions": [record([], [])]}
    read = parse(doc, "", {})
    assert (read.dims, read.shape, read.directions, len(read.partitions)) == ((), (), False, 1)
    assert json.loads(nca_write.write(read)["nca_array"])["directions"] is False


def test_a_scalar_master_array_may_have_a_sub_array_with_a_dimension_of_size_1():
    only = record([], [], dimensions=["height"], directions={"height": True}, data={"shape": [1]})
    read = parse({"directions": True, "pdimensions": [], "pshape": [], "Partitions": [only]}, "", {"height": 1})
    assert read.partitions.layout_of(0).dims == ("height",)


def test_a_missing_nca_dimensions_means_a_scalar():
    doc = {"directions": True, "pdimensions": [], "pshape": [], "Partitions": [record([], [])]}
    assert nca.parse("x", {"nca_array": json.dumps(doc)}, "f8", {}).dims == ()


def test_a_dimension_that_the_master_does_not_span_is_kept_and_its_direction_does_nothing():
    extra = two(dimensions=["height", "time", "lat"], directions={"height": False}, data={"shape": [1, 3, 3]})
    layout = parse_two(extra).partitions.layout_of(1)
    assert layout == Layout(("height", "time", "lat"))
    assert json.loads(nca_write.write(parse_two(extra))["nca_array"])["Partitions"][1]["directions"] == {"height": True}


def test_a_sub_array_may_lack_a_dimension_along_which_it_spans_one_index():
    doc = document(
        record([0], [[0, 4], [0, 3]]), record([1], [[4, 5], [0, 3]], dimensions=["lat"], data={"shape": [3]})
    )
    assert parse_two(doc).partitions.layout_of(1).dims == ("lat",)


def test_a_dimension_of_size_0_has_no_partitions():
    read = parse(document(pshape=(0,)), "time lat", {"time": 0, "lat": 3})
    assert (len(read.partitions), read.grid.matrix_shape) == (0, (0, 1))
    assert nca.parse("tas", {"units": "K", **nca_write.write(read)}, "f4", {"time": 0, "lat": 3}) == read


def test_partitions_may_stand_before_all_other_keys():
    doc = two()
    assert parse_two(dict(reversed(doc.items()))) == parse_two(doc)


def test_names_in_any_script_and_escapes_survive():
    doc = two(data={"file": 'données/"α"\\β 😀.nc', "ncvar": "τ\n"})
    read = parse_two(json.dumps(doc))  # ASCII, with surrogate pairs as escapes
    assert read.partitions.file_name(1) == 'données/"α"\\β 😀.nc'
    assert read == parse_two(doc)
    assert "😀" in nca_write.write(read)["nca_array"]


def test_a_lone_surrogate_stays_an_escape_so_that_the_text_is_utf_8():
    read = parse_two(json.dumps(two(data={"file": "a\udcff.nc"})))
    assert read.partitions.file_name(1) == "a\udcff.nc"
    text = nca_write.write(read)["nca_array"]
    assert "a\\udcff.nc" in text
    assert parse_two(text.encode("utf-8")) == read


@pytest.mark.parametrize("kind", [str, np.str_, str.encode, lambda t: np.bytes_(t.encode()), np.array])
def test_text_comes_as_str_bytes_and_their_numpy_kinds(kind):
    assert parse_two(json.dumps(two())) == nca.parse(
        "tas",
        {"units": "K", "nca_dimensions": kind("time lat"), "nca_array": kind(json.dumps(two()))},
        "f4",
        {"time": 5, "lat": 3},
    )


def test_other_attributes_stay_and_units_and_calendar_become_fields():
    attributes = {
        "standard_name": "air_temperature",
        "units": "days since 1-1-1",
        "calendar": "noleap",
        "_FillValue": 9.0,
    }
    read = nca.parse(
        "t", {**attributes, "nca_dimensions": "time lat", "nca_array": json.dumps(two())}, "f4", {"time": 5, "lat": 3}
    )
    assert (read.units, read.calendar) == ("days since 1-1-1", "noleap")
    assert dict(read.attributes) == {"standard_name": "air_temperature", "_FillValue": 9.0}


def test_units_may_be_bytes():
    attributes = {
        "units": b"K",
        "calendar": np.bytes_(b"noleap"),
        "nca_array": json.dumps(two()),
        "nca_dimensions": "time lat",
    }
    read = nca.parse("t", attributes, "f4", {"time": 5, "lat": 3})
    assert (read.units, read.calendar, read.attributes) == ("K", "noleap", {})


def test_the_source_is_kept_for_relative_references():
    assert parse_two(two(), source="/data/t.nca").source == "/data/t.nca"


# Repairs


def test_a_comma_for_the_colon_of_a_direction_is_repaired():
    doc = json.dumps(two()).replace('"time": true', '"time", true').replace('"', "'")
    read, told = with_warnings(doc, dims="time lat", sizes={"time": 5, "lat": 3})
    assert read == parse_two(two())
    assert any("there is a comma instead of the colon after 'time'" in t for t in told)


def test_a_byte_order_mark_is_repaired():
    read, told = with_warnings("\ufeff" + json.dumps(two()), dims="time lat", sizes={"time": 5, "lat": 3})
    assert read == parse_two(two())
    assert len(told) == 1
    assert "byte order mark" in told[0]


def test_an_unknown_key_is_named_once_and_left_out():
    doc = two(colour="red")
    doc["Partitions"][0]["colour"] = "blue"
    doc["Partitions"][0]["data"]["taste"] = 1
    doc["history"] = "x"
    read, told = with_warnings(json.dumps(doc), dims="time lat", sizes={"time": 5, "lat": 3})
    assert read == parse_two(two())
    assert sorted(re.search("the key '(.*?)'", t)[1] for t in told) == ["colour", "history", "taste"]


def test_a_missing_shape_is_taken_from_the_location():
    doc = two()
    del doc["Partitions"][1]["data"]["shape"]
    read, told = with_warnings(json.dumps(doc), dims="time lat", sizes={"time": 5, "lat": 3})
    assert read == parse_two(two())
    assert told == ["variable 'tas': Partitions[1].data.shape is missing; taken from the location"]


def test_missing_directions_are_taken_as_increasing():
    doc = two()
    doc["directions"] = {"time": False}
    read, told = with_warnings(json.dumps(doc), dims="time lat", sizes={"time": 5, "lat": 3})
    assert read.directions == (False, True)
    assert told == ["variable 'tas': directions says nothing about 'lat'; taken as increasing"]


def test_packing_of_a_netcdf_sub_array_is_left_to_its_file():
    read, told = with_warnings(
        json.dumps(two(data={"scale_factor": 2.0})), dims="time lat", sizes={"time": 5, "lat": 3}
    )
    assert read == parse_two(two())
    assert len(told) == 1
    assert "since a netCDF variable has its own" in told[0]


def test_strict_json_gives_no_warning():
    _, told = with_warnings(json.dumps(two()), dims="time lat", sizes={"time": 5, "lat": 3})
    assert told == []


# Size


def many(n):
    records = ", ".join(
        f'{{"index": [{i}], "location": [[{3 * i}, {3 * i + 3}], [0, 3]], "data": {{"shape": [3, 3], '
        f'"file": "archive/tas_{i:07d}.nc", "ncvar": "tas"}}}}'
        for i in range(n)
    )
    return (
        '{"directions": {"time": true, "lat": true}, "pdimensions": ["time"], '
        f'"pshape": [{n}], "Partitions": [{records}]}}'
    )


def test_20_000_partitions_take_at_most_64_bytes_each():
    n = 20_000
    text = many(n)
    read = parse(text, "time lat", {"time": 3 * n, "lat": 3})
    assert len(read.partitions) == n
    assert read.partitions.nbytes <= 64 * n
    assert read.partitions.file_name(n - 1) == "archive/tas_0019999.nc"
    assert nca_write.write(read)["nca_array"] == text


# What NCA 0.1 cannot say


def aggregation(layout=None, dims=("x",), **columns):
    layout = layout or Layout(("x",))
    columns = {"file": 0, "address": 0, **columns}
    partitions = Partitions.build(1, files=["a.nc"], addresses=["v"], layouts=[layout], **columns)
    return Aggregation("v", dims, (4,), np.dtype("f4"), Grid([[0, 4]]), partitions)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (aggregation(present=False), "declared missing"),
        (aggregation(Layout(("x",), fill=9.0)), "missing value"),
        (aggregation(Layout(("x",), scale_factor=2.0)), "belong in the netCDF file"),
        (aggregation(Layout(("x",), format="PP", add_offset=float("inf"))), "not a number that JSON can represent"),
        (aggregation(Layout(("y",))), "'x' is not among them"),
        (aggregation(Layout(("x",), shape=(5,))), r"takes \(5,\)"),
        (aggregation(Layout(("a b",)), dims=("a b",)), "not one word"),
        (aggregation(address=-1), "needs the name of a variable"),
        (aggregation(Layout(("x",), shape=(9,)), part=0, parts=["[(0, 5, 1)]"]), "the location spans"),
    ],
)
def test_what_the_convention_cannot_say_is_refused(what, message):
    with pytest.raises(ConventionError, match=message):
        nca_write.write(what)


def test_the_printed_examples_are_those_of_the_page():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "nca.md").read_text("utf-8")
    blocks = [json.loads(b) for b in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    written = [json.loads(nca_write.write(with_warnings(t)[0])["nca_array"]) for t in (EXAMPLE_2, EXAMPLE_3)]
    for want in written:
        assert want in blocks


def test_what_is_read_can_be_written_by_the_same_module():
    assert nca.write is nca_write.write
    with pytest.raises(AttributeError, match="no attribute 'writes'"):
        _ = nca.writes
