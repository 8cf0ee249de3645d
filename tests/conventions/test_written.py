"""Aggregations written in each dialect and parsed again: the same, and canonical."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cfagg.conventions import cf113_write, cfa06_write, cfa_write, nca, nca_write
from cfagg.conventions.detection import detect, parse
from cfagg.conventions.encoded import expand
from cfagg.conventions.scope import Described, Scope
from cfagg.conventions.uris import name_of, path_of, uri_of
from cfagg.errors import ConventionError
from cfagg.model import Aggregation, Grid, Layout, Partitions
from tests.effort import examples
from tests.strategies import edges, names, nca_documents

WRITERS = {
    "NCA-0.1": nca_write.encode,
    "CFA-0.4": cfa_write.write,
    "CFA-0.6.2": cfa06_write.write,
    "CF-1.13": cf113_write.write,
}
LACKS = {"NCA-0.1": nca_write, "CFA-0.4": cfa_write, "CFA-0.6.2": cfa06_write, "CF-1.13": cf113_write}
CONVENTIONS = {
    "NCA-0.1": "CF-1.6 NCA",
    "CFA-0.4": "CF-1.6 CFA-0.4",
    "CFA-0.6.2": "CF-1.6 CFA-0.6.2",
    "CF-1.13": "CF-1.13",
}


def again(encoded, sizes, name="v"):
    """Parse what was written, as a file gives it."""
    variables = encoded.variables

    def find(wanted):
        if wanted not in variables:
            return None
        dims, values, attributes = variables[wanted]
        assert values.shape == tuple(encoded.dimensions[d] for d in dims)
        return Described(dims, values.shape, values.dtype, attributes)

    def values(wanted):
        _, found, attributes = variables[wanted]
        fill = attributes.get("_FillValue")
        return np.ma.MaskedArray(found, found == fill if fill is not None else False)

    scope = Scope({**sizes, **encoded.dimensions}, find=find, values=values, conventions=CONVENTIONS[encoded.dialect])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return parse(name, encoded.attributes, encoded.dtype, scope)


def from_document(document, dims, sizes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attributes = {"nca_array": json.dumps(document), "nca_dimensions": " ".join(dims), "units": "m"}
        return nca.parse("v", attributes, "f8", sizes)


def plain(aggregation, **layout):
    """Return an aggregation without the packing of sub-arrays, which only NCA 0.1 has words for."""
    partitions = aggregation.partitions
    gone = {"scale_factor": None, "add_offset": None, "packing": None, **layout}
    layouts = tuple(replace(one, **gone) for one in partitions.layouts)
    return replace(aggregation, partitions=replace(partitions, layouts=layouts))


@pytest.mark.filterwarnings("ignore::cfagg.conventions.cfa.DialectWarning")
@settings(max_examples=examples(100))
@given(nca_documents())
def test_nca_01_is_parsed_written_and_parsed_to_the_same(made):
    document, dims, sizes, _, _ = made
    first = from_document(document, dims, sizes)
    written = nca_write.encode(first)
    assert again(written, sizes) == first
    assert nca_write.encode(again(written, sizes)).attributes == written.attributes


@pytest.mark.filterwarnings("ignore::cfagg.conventions.cfa.DialectWarning")
@settings(max_examples=examples(100))
@given(nca_documents())
def test_cfa_04_is_parsed_written_and_parsed_to_the_same(made):
    document, dims, sizes, _, _ = made
    first = plain(replace(from_document(document, dims, sizes), directions=True))
    written = cfa_write.write(first)
    second = again(written, sizes)
    assert second.grid == first.grid
    assert again(cfa_write.write(second), sizes) == second
    assert cfa_write.write(second).attributes == written.attributes
    for i in range(len(first.partitions)):
        assert second.partitions.file_name(i) == first.partitions.file_name(i)
        assert second.partitions.part_text(i) == first.partitions.part_text(i)
        assert second.partitions.offset[i] == first.partitions.offset[i]


#: Names of files with everything that URIs and paths write otherwise.
FILES = st.text(st.sampled_from("ab/é %#?:[.&+"), min_size=1, max_size=8).filter(
    lambda t: not t.endswith("/") and "//" not in t and ":" not in t.split("/")[0]
)
URLS = st.sampled_from(["s3://bucket/a%20b.nc", "https://host/x.nc?y=1", "/data/é ü.nc", "/a%41.nc"])


@st.composite
def fragmented(draw, versions=False, unique=False):
    """An aggregation as CF-1.13 and CFA-0.6.2 have them."""
    dims = tuple(draw(st.lists(names(), max_size=3, unique=True)))
    cuts = [draw(edges(max_cells=3, max_size=4).filter(lambda e: len(e) > 1)) for _ in dims]
    grid = Grid(cuts)
    n = grid.size
    files = draw(st.lists(FILES | URLS, min_size=1, max_size=n, unique=True))
    addresses = draw(st.lists(names(), min_size=1, max_size=2, unique=True))
    codes = st.lists(st.integers(0, len(files) - 1), min_size=n, max_size=n)
    where = {"layouts": [Layout(dims)], "files": files, "addresses": addresses}
    named = draw(st.lists(st.integers(0, len(addresses) - 1), min_size=n, max_size=n))
    if unique:
        values = draw(st.lists(st.floats(-9, 9, width=32), min_size=1, max_size=4, unique=True))
        chosen = draw(st.lists(st.integers(0, len(values) - 1), min_size=n, max_size=n))
        partitions = Partitions.build(n, value=chosen, values=np.array(values, "f4"), layouts=[Layout(dims)])
    else:
        more = [Partitions.build(n, file=draw(codes), address=named, **where) for _ in range(draw(st.integers(0, 2)))]
        partitions = Partitions.build(n, file=draw(codes), address=named, versions=more if versions else (), **where)
    attributes = {"standard_name": "x", "scale_factor": 2.0} if draw(st.booleans()) else {"_FillValue": np.float32(-99)}
    return Aggregation("v", dims, grid.shape, np.dtype("f4"), grid, partitions, "K", attributes=attributes, packs=False)


def check_identity(dialect, first):
    sizes = dict(zip(first.dims, first.shape, strict=True))
    written = WRITERS[dialect](first)
    second = again(written, sizes)
    assert second.dialect == dialect
    assert second.grid == first.grid
    assert (second.units, second.attributes) == (first.units, first.attributes)
    for one, other in zip(
        (first.partitions, *first.partitions.versions), (second.partitions, *second.partitions.versions), strict=True
    ):
        for i in range(len(one)):
            assert other.file_name(i) == one.file_name(i)
            assert other.address_name(i) == one.address_name(i)
    third = WRITERS[dialect](second)
    assert again(third, sizes) == second
    assert third.attributes == written.attributes
    assert third.variables.keys() == written.variables.keys()
    for name, (dims, values, _) in third.variables.items():
        assert dims == written.variables[name][0]
        assert values.tolist() == written.variables[name][1].tolist()
    return second


@settings(max_examples=examples(100))
@given(fragmented())
def test_cf_113_is_parsed_written_and_parsed_to_the_same(first):
    check_identity("CF-1.13", first)


@settings(max_examples=examples(50))
@given(fragmented(unique=True), st.booleans())
def test_unique_values_are_parsed_written_and_parsed_to_the_same(first, gaps):
    if gaps and "_FillValue" in first.attributes:
        gone = np.array(first.partitions.present)
        gone[0] = False
        first = replace(first, partitions=replace(first.partitions, present=gone))
    second = check_identity("CF-1.13", first)
    for i in range(len(first.partitions)):
        value = second.partitions.values[second.partitions.value[i]]
        if first.partitions.present[i]:
            assert value == first.partitions.values[first.partitions.value[i]]
        else:
            assert value is np.ma.masked


@settings(max_examples=examples(100))
@given(fragmented(versions=True), st.data())
def test_cfa_062_is_parsed_written_and_parsed_to_the_same(first, data):
    n = len(first.partitions)
    present = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    gone = [replace(v, present=present, file=np.where(present, v.file, -1), address=np.where(present, v.address, -1))
            for v in (first.partitions, *first.partitions.versions)]  # fmt: skip
    assume(present.any() or len(gone) == 1)
    terms = {"tracking_id": np.ma.MaskedArray(np.arange(n).reshape(first.grid.matrix_shape), ~present)}
    changed = replace(first, partitions=replace(gone[0], versions=tuple(gone[1:])), terms=terms)
    second = check_identity("CFA-0.6.2", changed)
    assert second.partitions.present.tolist() == present.tolist()
    assert second.terms["tracking_id"].tolist() == terms["tracking_id"].tolist()


def test_fragments_in_the_file_itself_are_written_without_a_file_in_cfa_062():
    own = Partitions.build(
        2, file=[-1, 0], address=[0, 1], files=["a.nc"], addresses=["p", "t"], layouts=[Layout(("x",))]
    )
    first = Aggregation("v", ("x",), (4,), np.dtype("f4"), Grid([[0, 1, 4]]), own, packs=False)
    second = check_identity("CFA-0.6.2", first)
    assert (second.partitions.file_name(0), second.partitions.address_name(0)) == (None, "p")


@pytest.mark.parametrize("name", ["a b.nc", "é.nc", "a%20b.nc", "x/[1].nc", "/data/a#b.nc", "a/b:c.nc", "\udc80.nc"])
def test_only_what_the_syntax_of_uris_forces_is_encoded_and_decodes_to_the_same(name):
    uri = uri_of(name)
    assert path_of(uri) == name
    assert set(uri) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;=%")
    assert uri_of("plain-name_1(2)+x~y@z,w;v=u.nc") == "plain-name_1(2)+x~y@z,w;v=u.nc"


def test_relative_names_of_cfa_062_are_paths_and_no_uris():
    assert (name_of("a b.nc"), name_of("/a b.nc")) == ("a b.nc", "file:///a%20b.nc")


def test_a_part_of_cfa_04_has_ranges_that_include_their_ends_in_square_brackets():
    part = Partitions.build(1, file=0, address=0, part=0, parts=["[(4, -1, -2), [1, 3, 4]]"], files=["a.nc"],
                            addresses=["t"], layouts=[Layout(("x", "y"), shape=(5, 9))])  # fmt: skip
    found = Aggregation("v", ("x", "y"), (3, 3), np.dtype("f4"), Grid([[0, 3], [0, 3]]), part)
    document = json.loads(cfa_write.write(found).attributes["cfa_array"])
    assert document["Partitions"][0]["part"] == "[[4, 0, -2], (1, 3, 4)]"
    assert document["Partitions"][0]["location"] == [[0, 2], [0, 2]]


def test_a_variable_by_its_number_is_written_and_read_back_in_cfa_04():
    first = one(address=-1, offset=3, addresses=[])
    (record,) = json.loads(cfa_write.write(first).attributes["cfa_array"])["Partitions"]
    assert record["subarray"] == {"shape": [1], "file": "a.nc", "varid": 3}
    assert check_identity("CFA-0.4", first) == first


#: What each dialect lacks the words for: an aggregation and the losses in all dialects that have any.
def one(layout=None, dims=("x",), *, attributes=None, packs=True, directions=True, terms=None, **columns):
    layout = layout or Layout(("x",))
    columns = {"file": 0, "address": 0, "files": ["a.nc"], "addresses": ["v"], **columns}
    partitions = Partitions.build(1, layouts=[layout], **columns)
    return Aggregation("v", dims, (1,) * len(dims), np.dtype("f4"), Grid([[0, 1]] * len(dims)), partitions,
                       attributes=attributes or {}, packs=packs, directions=directions, terms=terms or {})  # fmt: skip


def gapped():
    both = Partitions.build(2, file=[0, -1], address=[0, -1], present=[True, False], files=["a.nc"], addresses=["v"],
                            layouts=[Layout(("x",))])  # fmt: skip
    return Aggregation("v", ("x",), (2,), np.dtype("f4"), Grid([[0, 1, 2]]), both)


JSON, LATER = {"NCA-0.1", "CFA-0.4"}, {"CFA-0.6.2", "CF-1.13"}
OTHER = Partitions.build(1, file=0, address=0, files=["b.nc"], addresses=["v"], layouts=[Layout(("x",))])
LOST = {
    "part of a sub-array": (one(Layout(("x",), shape=(3,)), part=0, parts=["[(0, 1, 1)]"]), LATER),
    "size-1 dimension": (one(Layout(("x", "run"))), LATER),
    "order of dimensions": (one(Layout(("y", "x")), ("x", "y")), LATER),
    "direction of dimensions": (one(Layout(("x",), (True,))), LATER),
    "units": (one(Layout(("x",), units="K")), LATER),
    "calendar": (one(Layout(("x",), calendar="noleap")), LATER),
    "address in the file": (one(Layout(("x",), format="PP"), address=-1, offset=7), LATER),
    "number of a variable": (one(address=-1, offset=3, addresses=[]), {"NCA-0.1", *LATER}),
    "missing value": (one(Layout(("x",), fill=9.0)), JSON | LATER),
    "byte order": (one(Layout(("x",), format="PP", endian="little")), JSON | LATER),
    "packing": (one(Layout(("x",), format="PP", scale_factor=2.0)), {"CFA-0.4", *LATER}),
    "missing fragment": (gapped(), JSON | {"CF-1.13"}),
    "unique value": (one(file=-1, address=-1, value=0, values=[3.0]), JSON | {"CFA-0.6.2"}),
    "versions of fragments": (one(versions=[OTHER]), JSON | {"CF-1.13"}),
    "term of its own": (one(terms={"id": np.array([1])}), JSON | {"CF-1.13"}),
    "decreasing dimensions": (one(directions=False), LATER | {"CFA-0.4"}),
    "packing of the array": (one(attributes={"scale_factor": 2.0}), LATER),
    "fragment in the file itself": (one(file=-1), {"CF-1.13"}),
    "cf_role": (one(attributes={"cf_role": "timeseries_id"}), {"CFA-0.4"}),
}


@pytest.mark.few(25)
@pytest.mark.parametrize("what", LOST)
@pytest.mark.parametrize("dialect", WRITERS)
def test_every_loss_is_listed_with_its_partition_where_a_dialect_has_no_words(what, dialect):
    aggregation, lossy = LOST[what]
    found = [loss for loss in expand(aggregation, LACKS[dialect].lacks(aggregation)) if loss.what == what]
    assert bool(found) is (dialect in lossy)
    for loss in found:
        whole = {"term of its own", "decreasing dimensions", "cf_role"}
        gap = (1,) if what == "missing fragment" else (0,) * len(aggregation.dims)
        assert loss.partition == (None if what in whole else gap)
        assert loss.variable == "v"
        assert loss.found
        assert loss.why


@pytest.mark.parametrize("dialect", WRITERS)
def test_what_would_give_other_values_is_refused_and_the_rest_left_out(dialect):
    facts = {"byte order", "versions of fragments", "term of its own", "decreasing dimensions", "cf_role"}
    for what, (aggregation, lossy) in LOST.items():
        if dialect in lossy and what not in facts:
            with pytest.raises(ConventionError, match="cannot describe this aggregation"):
                WRITERS[dialect](aggregation)
        elif dialect in lossy:
            WRITERS[dialect](aggregation)


def test_the_same_dimension_of_fragments_is_made_once_in_a_file_and_never_twice_in_a_variable():
    from cfagg.conventions.encoded import Names

    names_ = Names({"time": 9, "f_time": 3}, ["tas"])
    assert names_.dimension("f_time", 2) == "f_time_2"
    assert names_.dimension("f_time", 2) == "f_time_2"
    assert names_.dimension("f_time_2", 2, ["f_time_2"]) == "f_time_2_2"
    assert names_.variable("tas") == "tas_2"


@pytest.mark.soak
@pytest.mark.parametrize("dialect", WRITERS)
def test_a_million_partitions_are_written_in_seconds(dialect):
    assert seconds(dialect, 1_000_000) < 15


def seconds(dialect, n):
    partitions = Partitions.build(n, file=np.arange(n), address=0, files=[f"d/f{i:07d}.nc" for i in range(n)],
                                  addresses=["t"], layouts=[Layout(("t", "y"))])  # fmt: skip
    packs = dialect not in LATER
    many = Aggregation("t", ("t", "y"), (2 * n, 64), np.dtype("f4"), Grid([np.arange(n + 1) * 2, [0, 64]]), partitions,
                       packs=packs)  # fmt: skip
    start = time.process_time()
    expand(many, LACKS[dialect].lacks(many))
    WRITERS[dialect](many)
    return time.process_time() - start


def test_written_dialects_are_detected_as_what_they_are():
    for dialect, write in WRITERS.items():
        assert detect(write(one()).attributes, CONVENTIONS[dialect]) == dialect


@pytest.mark.parametrize(
    "held",
    [np.arange(256).astype("u1"), np.arange(-128, 128).astype("i1"), np.array([1e20, 2.0]), np.array([1e20, 2], "f4")],
    ids=["u1", "i1", "f8", "f4"],
)
def test_a_gap_of_a_term_is_written_as_a_value_that_no_fragment_has(held):
    n = held.size + 1
    own = Partitions.build(n, file=0, address=0, files=["a.nc"], addresses=["t"], layouts=[Layout(("x",))])
    term = np.ma.MaskedArray(np.append(held, held[:1]), [False] * held.size + [True])
    first = Aggregation("v", ("x",), (n,), np.dtype("f4"), Grid.regular((n,), (1,)), own, terms={"t": term})
    _, values, attributes = cfa06_write.write(first).variables["v_t"]
    assert values[:-1].tolist() == held.tolist()
    fill = attributes["_FillValue"]
    assert fill.dtype == values.dtype
    assert fill not in held
    np.testing.assert_array_equal(values[-1], fill)


def test_a_name_that_no_file_has_is_refused_where_it_would_be_a_uri():
    with pytest.raises(ConventionError, match="is not a file name and has no URI"):
        uri_of("\ud800.nc")
