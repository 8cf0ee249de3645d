"""What a fragment's own file says is compared with the aggregation before its values are used: right or refused."""

from __future__ import annotations

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.errors import (
    CfaggError,
    ConformError,
    ConventionError,
    FragmentMismatchError,
    FragmentNotFoundError,
    FragmentReadError,
    UnitsError,
)
from tests import instruction_files as files
from tests import nca_files

SQUARE = np.arange(24, dtype="f8").reshape(6, 2, 2)
WRITERS = {"CF-1.13": files.cf, "CFA-0.6.2": files.cfa}


def write(folder, dialect, dtype="f8", lengths=None, rows=((6,), (2,), (2,)), names=((("p.nc",),),), **more):
    lengths = lengths or {"time": 6, "lat": 2, "lon": 2}
    attributes = {"units": "K"} | more.pop("attributes", {})
    return WRITERS[dialect](folder / "a.nc", "tas", dtype, lengths, rows, names, attributes=attributes, **more)


def data(path, **options):
    return cfagg.read(path, **options)["tas"].values


def fragment(folder, values, dims, attributes=None, **more):
    return nca_files.fragment(folder / "p.nc", "tas", values, dims, {"units": "K"} | (attributes or {}), **more)


@pytest.mark.parametrize("dialect", WRITERS)
def test_dimensions_may_be_called_otherwise(tmp_path, dialect):
    fragment(tmp_path, SQUARE, ["t", "y", "x"])
    np.testing.assert_array_equal(data(write(tmp_path, dialect)), SQUARE)


def test_a_transposed_fragment_of_equal_shape_is_put_right_by_its_names(tmp_path):
    fragment(tmp_path, SQUARE.transpose(0, 2, 1), ["time", "lon", "lat"])
    np.testing.assert_array_equal(data(write(tmp_path, "CF-1.13")), SQUARE)


def test_cfa_does_not_allow_a_transposed_fragment(tmp_path):
    fragment(tmp_path, SQUARE.transpose(0, 2, 1), ["time", "lon", "lat"])
    with pytest.raises(FragmentMismatchError, match=r"dimensions \('time', 'lon', 'lat'\), expected the order"):
        data(write(tmp_path, "CFA-0.6.2"))


@pytest.mark.parametrize("dialect", WRITERS)
def test_a_transposed_fragment_with_names_of_its_own_is_noticed_by_its_coordinates(tmp_path, dialect):
    north, east = {"units": "degrees_north"}, {"units": "degrees_east"}
    coordinates = {"x": (["x"], [0.0, 1.0], east), "y": (["y"], [5.0, 6.0], north)}
    fragment(tmp_path, SQUARE.transpose(0, 2, 1), ["t", "x", "y"], coordinates=coordinates)
    path = write(tmp_path, dialect)
    with netCDF4.Dataset(path, "a") as root:
        for name, attributes in (("lat", north), ("lon", east)):
            root.createVariable(name, "f8", (name,)).setncatts(attributes)
    with pytest.raises(FragmentMismatchError, match="'x' of size 2, has the coordinates of 'lon'"):
        data(path)


#: Coordinates of two dimensions by which they can be told.
TOLD = {
    "names": ({"standard_name": "latitude"}, {"standard_name": "longitude"}),
    "axes": ({"axis": "Y"}, {"axis": "X"}),
    "times": (
        {"standard_name": "forecast_reference_time", "units": "days since 2000-01-01"},
        {"standard_name": "time", "units": "days since 2000-01-01"},
    ),
    "units": ({"units": "m"}, {"units": "s"}),
    "one": ({"axis": "Y"}, {}),
}


def square(folder, dialect, told, *, swapped, dims=("time", "lat", "lon")):
    """An aggregation over a square fragment that has the aggregation's own names, and coordinates for both."""
    own, other = told[::-1] if swapped else told
    coordinates = {n: ([n], [0.0, 1.0], a) for n, a in zip(dims[-2:], (own, other), strict=True) if a}
    fragment(folder, SQUARE, dims, coordinates=coordinates)
    path = write(folder, dialect)
    with netCDF4.Dataset(path, "a") as root:
        for name, attributes in zip(("lat", "lon"), told, strict=True):
            if attributes:
                coordinate = root.createVariable(name, "f8", (name,))
                coordinate.setncatts(attributes)
                coordinate[:] = [0.0, 1.0]
    return path


@pytest.mark.few(3)
@pytest.mark.parametrize("dialect", WRITERS)
@pytest.mark.parametrize("told", TOLD.values(), ids=TOLD)
def test_a_square_fragment_with_swapped_coordinates_under_the_aggregations_names_is_refused(tmp_path, dialect, told):
    path = square(tmp_path, dialect, told, swapped=True)
    with pytest.raises(
        FragmentMismatchError, match=r"has the coordinates of 'l.*, but the aggregation says that it is"
    ):
        data(path)


@pytest.mark.parametrize("told", TOLD.values(), ids=TOLD)
def test_a_square_fragment_whose_coordinates_agree_is_read(tmp_path, told):
    np.testing.assert_array_equal(data(square(tmp_path, "CF-1.13", told, swapped=False)), SQUARE)


def test_two_latitudes_under_any_names_are_no_interchange(tmp_path):
    north = {"axis": "Y", "units": "degrees_north"}
    path = square(tmp_path, "CF-1.13", (north, north), swapped=True)
    np.testing.assert_array_equal(data(path), SQUARE)


def test_units_alone_that_are_swapped_under_right_names_are_no_interchange(tmp_path):
    first, second = {"standard_name": "altitude", "units": "m"}, {"standard_name": "depth", "units": "km"}
    fragment(
        tmp_path,
        SQUARE,
        ["time", "lat", "lon"],
        coordinates={
            "lat": (["lat"], [0.0, 1.0], first | {"units": "km"}),
            "lon": (["lon"], [0.0, 1.0], second | {"units": "m"}),
        },
    )
    path = write(tmp_path, "CF-1.13")
    with netCDF4.Dataset(path, "a") as root:
        for name, attributes in (("lat", first), ("lon", second)):
            root.createVariable(name, "f8", (name,)).setncatts(attributes)
    np.testing.assert_array_equal(data(path), SQUARE)


@pytest.mark.parametrize("dialect", WRITERS)
def test_a_name_of_the_aggregation_in_another_place_is_refused(tmp_path, dialect):
    fragment(tmp_path, SQUARE, ["time", "lon", "y"])
    with pytest.raises(FragmentMismatchError, match="'lon' is out of place"):
        data(write(tmp_path, dialect))


@pytest.mark.parametrize("dialect", WRITERS)
@pytest.mark.parametrize("dims", [["time", "lat", "lon", "height"], ["z", "t", "y", "x"]])
def test_a_fragment_with_more_dimensions_is_refused(tmp_path, dialect, dims):
    fragment(tmp_path, SQUARE[..., None] if dims[0] == "time" else SQUARE[None], dims)
    with pytest.raises(FragmentMismatchError, match=r"4 dimensions, .* more than the aggregation"):
        data(write(tmp_path, dialect))


@pytest.mark.parametrize("dialect", WRITERS)
@pytest.mark.parametrize("shape", [(5, 2, 2), (7, 2, 2), (6, 2, 3)])
def test_a_fragment_of_another_size_is_refused(tmp_path, dialect, shape):
    fragment(tmp_path, np.zeros(shape), ["t", "y", "x"])
    with pytest.raises(FragmentMismatchError, match=r"has shape \(.*elements along"):
        data(write(tmp_path, dialect))


@pytest.mark.few(3)
@pytest.mark.parametrize("dialect", WRITERS)
@pytest.mark.parametrize(
    ("dims", "shape"),
    [(["lat", "lon"], (2, 3)), (["y", "x"], (2, 3)), (["z", "y", "x"], (1, 2, 3)), (["time", "lat", "lon"], (1, 2, 3))],
)
def test_dimensions_of_size_1_may_be_left_out(tmp_path, dialect, dims, shape):
    values = np.arange(12.0).reshape(2, 1, 2, 3)
    for k in range(2):
        nca_files.fragment(tmp_path / f"p{k}.nc", "tas", values[k].reshape(shape), dims, {"units": "K"})
    lengths = {"time": 2, "z": 1, "lat": 2, "lon": 3}
    names = np.array(["p0.nc", "p1.nc"], object).reshape(2, 1, 1, 1).tolist()
    path = write(tmp_path, dialect, lengths=lengths, rows=[[1, 1], [1], [2], [3]], names=names)
    np.testing.assert_array_equal(data(path), values)
    np.testing.assert_array_equal(cfagg.read(path).tas[1, 0, ::-1, [0, 2]].values, values[1, 0, ::-1, [0, 2]].T)


@pytest.mark.parametrize("dialect", WRITERS)
def test_which_dimension_is_left_out_depends_on_the_partition(tmp_path, dialect):
    values = np.arange(9.0).reshape(3, 3)
    for k, (rows, columns) in enumerate(
        [(slice(0, 1), slice(0, 2)), (slice(0, 1), slice(2, 3)), (slice(1, 3), slice(0, 2)), (slice(1, 3), slice(2, 3))]
    ):
        block = values[rows, columns]
        dims = ["n"] if 1 in block.shape else ["a", "b"]
        nca_files.fragment(tmp_path / f"p{k}.nc", "tas", block.reshape(-1) if dims == ["n"] else block, dims)
    names = [["p0.nc", "p1.nc"], ["p2.nc", "p3.nc"]]
    path = write(tmp_path, dialect, lengths={"y": 3, "x": 3}, rows=[[1, 2], [2, 1]], names=names)
    np.testing.assert_array_equal(data(path), values)


@pytest.mark.parametrize("dialect", WRITERS)
@pytest.mark.parametrize("dims", [["lat", "lon"], ["y", "x"]])
def test_a_dimension_that_is_not_of_size_1_must_be_there(tmp_path, dialect, dims):
    fragment(tmp_path, np.zeros((2, 2)), dims)
    with pytest.raises(FragmentMismatchError, match=r"cannot be matched|gives 1 elements along 'time', expected 6"):
        data(write(tmp_path, dialect))


@pytest.mark.parametrize("dialect", WRITERS)
def test_units_types_and_packing_are_those_of_each_file(tmp_path, dialect):
    celsius = np.array([[-5.0, 0], [10, 20]])
    nca_files.fragment(tmp_path / "p0.nc", "tas", celsius.astype("f4"), ["t", "x"], {"units": "degC"})
    packing = {"scale_factor": 0.5, "add_offset": 250.0, "units": "K"}
    nca_files.fragment(tmp_path / "p1.nc", "tas", np.array([[1, 2], [3, -3]], "i2"), ["t", "x"], packing)
    path = write(tmp_path, dialect, lengths={"t": 4, "x": 2}, rows=[[2, 2], [2]], names=[["p0.nc"], ["p1.nc"]])
    np.testing.assert_allclose(data(path), [*(celsius + 273.15), [250.5, 251], [251.5, 248.5]], rtol=1e-12)


@pytest.mark.parametrize("dialect", WRITERS)
def test_units_that_do_not_convert_are_refused(tmp_path, dialect):
    fragment(tmp_path, SQUARE, ["t", "y", "x"], {"units": "m"})
    with pytest.raises(UnitsError, match="'m' cannot be converted to 'K'"):
        data(write(tmp_path, dialect))


@pytest.mark.few(3)
@pytest.mark.parametrize("dialect", WRITERS)
@pytest.mark.parametrize(
    "attributes",
    [{"missing_value": -5.0}, {"valid_min": 0.0}, {"valid_range": [0.0, 9.0]}, {"_FillValue": -5.0}],
    ids=lambda a: next(iter(a)),
)
def test_what_is_missing_in_the_file_is_missing(tmp_path, dialect, attributes):
    values = np.where(SQUARE == 3, -5, SQUARE % 9)
    others = {k: v for k, v in attributes.items() if k != "_FillValue"}
    fragment(tmp_path, values, ["t", "y", "x"], others, fill_value=attributes.get("_FillValue"))
    path = write(tmp_path, dialect, fill_value=-1e9)
    np.testing.assert_array_equal(data(path), np.where(values == -5, np.nan, values))
    assert data(path, mask_and_scale=False)[0, 1, 1] == -1e9


@pytest.mark.parametrize("dialect", WRITERS)
def test_a_valid_value_that_is_the_missing_value_of_the_aggregation_is_refused(tmp_path, dialect):
    fragment(tmp_path, SQUARE, ["t", "y", "x"])
    with pytest.raises(ConformError, match=r"the valid value 3\.0"):
        data(write(tmp_path, dialect, fill_value=3.0))


@pytest.mark.few(5)
@pytest.mark.parametrize("dialect", WRITERS)
@pytest.mark.parametrize(
    ("dtype", "values"), [("i2", 40000.0), ("u1", -1.0), ("i4", 2.5), ("i4", 2.0**31), ("u8", -1.0), ("f4", 1e300)]
)
def test_a_value_that_the_type_of_the_aggregation_cannot_hold_is_refused(tmp_path, dialect, dtype, values):
    fragment(tmp_path, np.full((6, 2, 2), values), ["t", "y", "x"])
    with pytest.raises(ConformError, match="cannot be held by type"):
        data(write(tmp_path, dialect, dtype=dtype))


@pytest.mark.parametrize("dialect", WRITERS)
def test_text_is_no_number(tmp_path, dialect):
    with netCDF4.Dataset(tmp_path / "p.nc", "w") as root:
        files.dimensions(root, t=6, y=2, x=2)
        root.createVariable("tas", str, ("t", "y", "x"))
    with pytest.raises(FragmentMismatchError, match="cannot be converted to float64"):
        data(write(tmp_path, dialect))


@pytest.mark.parametrize("dialect", WRITERS)
def test_a_fragment_that_is_not_there_is_named_and_filled_only_on_request(tmp_path, dialect):
    path = write(tmp_path, dialect)
    with pytest.raises(FragmentNotFoundError, match=r"partition \(0, 0, 0\).*p\.nc"):
        data(path)
    assert np.isnan(data(path, missing="fill")).all()
    fragment(tmp_path, SQUARE, ["t", "y", "x"], {"units": "m"})
    with pytest.raises(UnitsError):
        data(path, missing="fill")


@pytest.mark.parametrize("dialect", WRITERS)
@pytest.mark.parametrize(
    ("dtype", "attributes", "expected"),
    [
        (str, {}, ""),
        (str, {"missing_value": "none"}, "none"),
        ("S1", {}, b""),
        ("S1", {"missing_value": "-"}, b"-"),
        ("S1", {"_FillValue": b"\xff"}, b"\xff"),
    ],
)
def test_text_of_a_fragment_that_is_not_there_is_the_missing_text_or_empty(
    tmp_path, dialect, dtype, attributes, expected
):
    path = write(tmp_path, dialect, dtype=dtype, attributes=attributes)
    assert set(cfagg.open_array(path, "tas", missing="fill")[:].ravel().tolist()) == {expected}


def with_an_inner_gap(folder, name):
    """Write an aggregation of another one, whose second fragment is missing."""
    nca_files.fragment(folder / "p.nc", "tas", np.array([1.0, 2.0]), ["t"])
    files.cfa(folder / "inner.nc", "tas", "f8", {"t": 4}, [[2, 2]], ["p.nc", name], ["tas", name and "tas"])
    return files.cf(folder / "a.nc", "tas", "f8", {"t": 4}, [[4]], ["inner.nc"])


@pytest.mark.parametrize("name", ["gone.nc", None])
def test_missing_fragments_of_an_inner_aggregation_are_filled_on_request(tmp_path, name):
    path = with_an_inner_gap(tmp_path, name)
    with pytest.raises(FragmentNotFoundError, match=r"inner\.nc, variable 'tas', partition \(1,\)"):
        data(path)
    np.testing.assert_array_equal(data(path, missing="fill"), [1, 2, np.nan, np.nan])


def test_fragments_that_an_inner_aggregation_declares_missing_are_written_as_missing_values(tmp_path):
    with_an_inner_gap(tmp_path, None)
    sub_array = {"shape": [4], "file": "inner.nc", "ncvar": "tas"}
    turned = nca_files.array(["t"], [[0, 4]], lambda *_: {"directions": {"t": False}, "data": sub_array})
    nca_files.aggregation(tmp_path / "turned.nca", "tas", "f8", {"t": 4}, turned, dims=["t"])
    cfagg.convert(tmp_path / "turned.nca", tmp_path / "out.nc", to="CF-1.13", on_loss="materialise")
    np.testing.assert_array_equal(data(tmp_path / "out.nc"), [np.nan, np.nan, 2, 1])


@pytest.mark.few(3)
@pytest.mark.parametrize("outer", WRITERS)
@pytest.mark.parametrize("inner", [*WRITERS, "NCA-0.1"])
def test_a_fragment_may_be_an_aggregation_of_any_convention(tmp_path, outer, inner):
    below = tmp_path / "below"
    below.mkdir()
    if inner == "NCA-0.1":
        nca_files.simple(below, SQUARE, ["t", "y", "x"], [[0, 2, 6], [0, 2], [0, 2]], attributes={"units": "K"})
        name = "below/agg.nca"
    else:
        fragment(below, SQUARE, ["t", "y", "x"])
        name = f"below/{write(below, inner).name}"
    np.testing.assert_array_equal(data(write(tmp_path, outer, names=[[[name]]])), SQUARE)


@pytest.mark.parametrize("dialect", WRITERS)
def test_an_aggregation_that_refers_to_itself_is_refused(tmp_path, dialect):
    with pytest.raises(ConventionError, match="refers to itself"):
        data(write(tmp_path, dialect, names=[[["a.nc"]]]))


@pytest.mark.few(1)
@pytest.mark.parametrize("dialect", WRITERS)
def test_aggregations_inside_each_other_are_followed_to_a_limit(tmp_path, dialect):
    for k in range(10):
        write(tmp_path, dialect, names=[[[f"{k + 1}.nc"]]]).rename(tmp_path / f"{k}.nc")
    with pytest.raises(CfaggError, match="followed at most 8 levels deep"):
        data(tmp_path / "0.nc")


@pytest.mark.parametrize("dialect", WRITERS)
def test_fragments_may_hold_text(tmp_path, dialect):
    texts = np.array(["é", "", "b", "c c"], object)
    for k, (start, stop) in enumerate([(0, 1), (1, 4)]):
        with netCDF4.Dataset(tmp_path / f"p{k}.nc", "w") as root:
            files.dimensions(root, n=stop - start)
            files.text(root, "tas", ("n",), texts[start:stop])
    path = WRITERS[dialect](tmp_path / "a.nc", "tas", str, {"t": 4}, [[1, 3]], ["p0.nc", "p1.nc"])
    assert data(path).tolist() == texts.tolist()
    assert cfagg.read(path).tas[::-2].values.tolist() == ["c c", ""]


@pytest.mark.parametrize("dialect", WRITERS)
def test_aggregated_bounds_have_the_units_of_their_coordinates_in_each_file(tmp_path, dialect):
    for k, units in enumerate(["days since 2000-01-01", "hours since 2000-01-03"]):
        scale = 1.0 if k == 0 else 24.0
        times = np.array([0.5, 1.5]) * scale
        bounds = np.stack([times - 0.5 * scale, times + 0.5 * scale], axis=1)
        with netCDF4.Dataset(tmp_path / f"p{k}.nc", "w") as root:
            files.dimensions(root, time=2, two=2)
            root.createVariable("time", "f8", ("time",))[:] = times
            root["time"].setncatts({"units": units, "bounds": "time_bounds"})
            root.createVariable("time_bounds", "f8", ("time", "two"))[:] = bounds
    write, names = WRITERS[dialect], ["p0.nc", "p1.nc"]
    known = {"units": "days since 2000-01-01"}
    path = write(tmp_path / "a.nc", "time", "f8", {"time": 4}, [[2, 2]], names, "time", attributes=known)
    with netCDF4.Dataset(path, "a") as root:
        root["time"].bounds = "time_bounds"
        files.dimensions(root, bnds=2, f_bnds=1)
        files.sizes(root, "sizes", [[2, 2], [2]])
        dims = ("f_time", "f_bnds")
        files.text(root, "names", dims, [["p0.nc"], ["p1.nc"]])
        files.text(root, "bounds_name", (), "time_bounds")
        terms = {"map": "sizes", "uris": "names", "identifiers": "bounds_name"}
        if dialect == "CFA-0.6.2":
            terms = {"location": "sizes", "file": "names", "format": "format", "address": "bounds_name"}
        files.aggregated(root, "time_bounds", "f8", ["time", "bnds"], terms)
    ds = cfagg.read(path, decode_times=False)
    assert ds.time.values.tolist() == [0.5, 1.5, 2.5, 3.5]
    assert ds.time_bounds.values.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]


def characters(folder, name, texts, dims, length, encoding="utf-8", **attributes):
    """Write texts as characters."""
    texts = np.array(texts, object)
    with netCDF4.Dataset(folder / name, "w") as root:
        for dim, n in (*zip(dims, texts.shape, strict=True), ("length", length)):
            root.createDimension(dim, n)
        variable = root.createVariable("tas", "S1", (*dims, "length"), fill_value=attributes.pop("fill", None))
        variable.setncatts(attributes)
        variable.set_auto_chartostring(False)
        flat = np.array([t.encode(encoding) for t in texts.ravel()], f"S{length}")
        variable[...] = flat.view("S1").reshape(*texts.shape, length)


@pytest.mark.parametrize("dialect", WRITERS)
def test_texts_are_read_from_fragments_of_characters(tmp_path, dialect):
    texts = np.array([["a", "bb "], ["é", ""], ["", "x y"]], object)
    characters(tmp_path, "p0.nc", texts[:1], ["time", "lat"], 4)
    characters(tmp_path, "p1.nc", texts[1:2], ["t", "y"], 6, "latin-1", _Encoding="latin-1", fill=b"-")
    with netCDF4.Dataset(tmp_path / "p2.nc", "w") as root:
        files.dimensions(root, time=1, lat=2)
        files.text(root, "tas", ("time", "lat"), texts[2:])
    names = [[f"p{k}.nc"] for k in range(3)]
    path = WRITERS[dialect](tmp_path / "a.nc", "tas", str, {"time": 3, "lat": 2}, [[1] * 3, [2]], names)
    np.testing.assert_array_equal(data(path), texts)
    assert cfagg.read(path).tas[::-1, 1].values.tolist() == ["x y", "", "bb "]


def test_texts_are_read_from_transposed_characters(tmp_path):
    texts = np.array([["a", "b", "cc"], ["d", "e", "f"]], object)
    characters(tmp_path, "p.nc", texts.T, ["lat", "time"], 2)
    path = files.cf(tmp_path / "a.nc", "tas", str, {"time": 2, "lat": 3}, [[2], [3]], [["p.nc"]])
    np.testing.assert_array_equal(data(path), texts)


def test_characters_that_are_no_text_are_refused_with_their_place(tmp_path):
    characters(tmp_path, "p.nc", ["\xff"], ["time"], 2, "latin-1")
    path = files.cf(tmp_path / "a.nc", "tas", str, {"time": 1}, [[1]], ["p.nc"])
    with pytest.raises(FragmentReadError, match=r"partition \(0,\): 'tas' of .*p.nc: its text is not UTF-8"):
        data(path)
