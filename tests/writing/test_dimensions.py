"""Dimensions of fragments that the array has not, or calls otherwise, in translated and written aggregations."""

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from tests import instruction_files, nca_files

VALUES = np.arange(16.0).reshape(4, 4)
WRITTEN = ("NCA-0.1", "CFA-0.4", "CFA-0.6.2", "CF-1.13")


def read(path):
    with cfagg.read(path) as found:
        return found.tas.load()


def aggregation(folder, fragment_dims, *, values=VALUES, sizes=None, **more):
    nca_files.fragment(folder / "one.nc", "tas", values, fragment_dims)

    def describe(index, location):
        data = {"shape": list(values.shape), "file": "one.nc", "ncvar": "tas"}
        return {**more, "data": data, "format": "netCDF"}

    array = nca_files.array(["a", "b"], [[0, 4], [0, 4]], describe)
    return nca_files.aggregation(
        folder / "agg.nca", "tas", "f8", {"a": 4, "b": 4, **(sizes or {})}, array, dims=["a", "b"]
    )


def in_variables(path, fragments, dims, cells):
    """Write an aggregation in CF-1.13 or CFA-0.6.2, by its suffix, along the first dimension."""
    later = path.stem == "cf"
    with netCDF4.Dataset(path, "w") as file:
        file.Conventions = "CF-1.13" if later else "CF-1.9 CFA-0.6.2"
        for dim, n in zip(dims, cells, strict=True):
            file.createDimension(dim, sum(n))
        file.createDimension("j", len(dims))
        file.createDimension("i", max(map(len, cells)))
        for k, n in enumerate(cells):
            file.createDimension(f"f{k}", len(n))
        spanned = tuple(f"f{k}" for k in range(len(dims)))
        file.createVariable("map", "i4", ("j", "i"))[:] = np.ma.masked_equal(
            [n + (0,) * (max(map(len, cells)) - len(n)) for n in cells], 0
        )
        file.createVariable("uris", str, spanned)[:] = np.array(fragments, object).reshape([len(n) for n in cells])
        file.createVariable("names", str, spanned)[:] = np.full([len(n) for n in cells], "tas", object)
        file.createVariable("format", str, ())[...] = np.array("nc", object)
        tas = file.createVariable("tas", "f8", ())
        tas.aggregated_dimensions = " ".join(dims)
        terms = (
            "map: map uris: uris identifiers: names"
            if later
            else "location: map file: uris address: names format: format"
        )
        tas.aggregated_data = terms
    return path


@pytest.mark.parametrize("to", WRITTEN)
@pytest.mark.parametrize("name", ["cf.nc", "cfa.nc"])
def test_dimensions_that_only_describe_fragments_are_not_copied(tmp_path, name, to):
    nca_files.fragment(tmp_path / "one.nc", "tas", VALUES, ("a", "b"))
    path = in_variables(tmp_path / name, ["one.nc"], ("a", "b"), [(4,), (4,)])
    cfagg.convert(path, tmp_path / "out.nc", to=to)
    with netCDF4.Dataset(tmp_path / "out.nc") as file:
        assert {"f0", "f1", "i_2", "j_2"}.isdisjoint(file.dimensions)


@pytest.mark.parametrize("name", ["cf", "cfa"])
@pytest.mark.parametrize("to", WRITTEN)
def test_fragments_without_dimensions_of_size_1_are_read_after_each_translation(tmp_path, name, to):
    for k in range(2):
        nca_files.fragment(tmp_path / f"{k}.nc", "tas", VALUES[k], ["x"])
    source = in_variables(tmp_path / f"{name}.nc", ["0.nc", "1.nc"], ("a", "b"), [(1, 1), (4,)])
    cfagg.convert(source, tmp_path / "out.nc", to=to)
    assert read(tmp_path / "out.nc").values.tolist() == VALUES[:2].tolist()


@pytest.mark.parametrize("name", ["cf", "cfa"])
@pytest.mark.parametrize("to", WRITTEN)
def test_scalar_fragments_of_arrays_of_one_dimension_are_read_after_each_translation(tmp_path, name, to):
    for k in range(2):
        nca_files.fragment(tmp_path / f"{k}.nc", "tas", np.array(float(k)), [])
    source = in_variables(tmp_path / f"{name}.nc", ["0.nc", "1.nc"], ("a",), [(1, 1)])
    cfagg.convert(source, tmp_path / "out.nc", to=to)
    assert read(tmp_path / "out.nc").values.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("to", ["NCA-0.1", "CFA-0.4"])
def test_datasets_with_fragments_of_more_dimensions_are_written_with_these(tmp_path, to):
    source = aggregation(
        tmp_path,
        ["level", "a", "b"],
        values=VALUES[None],
        sizes={"level": 1},
        dimensions=["level", "a", "b"],
        directions={"level": True},
    )
    cfagg.write(cfagg.read(source), tmp_path / "out.nc", to=to)
    assert read(tmp_path / "out.nc").values.tolist() == VALUES.tolist()


@pytest.mark.parametrize("to", WRITTEN)
@pytest.mark.parametrize(
    ("of_file", "names"),
    [(("a", "b"), ("b", "a")), (("x", "y"), ("y", "x")), (("a", "b"), ("z", "a")), (("x", "y"), ("p", "q"))],
    ids=["interchanged", "as in files, interchanged", "one as another was", "other ones"],
)
def test_arrays_with_renamed_dimensions_keep_their_values(tmp_path, to, of_file, names):
    source = aggregation(tmp_path, of_file)
    ds = cfagg.read(source).rename({old: new for old, new in zip("ab", names, strict=True) if old != new})
    cfagg.write(ds, tmp_path / "out.nc", to=to)
    found = read(tmp_path / "out.nc")
    assert found.dims == names
    assert found.values.tolist() == VALUES.tolist()


def test_arrays_with_renamed_dimensions_stay_references_where_no_name_of_a_fragment_contradicts(tmp_path):
    ds = cfagg.read(aggregation(tmp_path, ("x", "y"))).rename(a="p", b="q")
    assert cfagg.write(ds, tmp_path / "out.nc").fragments == 0


@pytest.mark.parametrize("to", WRITTEN)
@pytest.mark.parametrize("of_file", [("a", "b"), ("b", "a")])
def test_renamed_dimensions_of_fragments_that_tell_their_order_by_names_keep_their_values(tmp_path, to, of_file):
    nca_files.fragment(tmp_path / "0.nc", "tas", VALUES if of_file == ("a", "b") else VALUES.T, of_file)
    source = in_variables(tmp_path / "cf.nc", ["0.nc"], ("a", "b"), [(4,), (4,)])
    cfagg.write(cfagg.read(source).rename(a="p", b="q"), tmp_path / "out.nc", to=to)
    assert read(tmp_path / "out.nc").values.tolist() == VALUES.tolist()


@pytest.mark.parametrize("to", ["CFA-0.6.2", "CF-1.13"])
def test_arrays_without_elements_are_losses_that_can_be_dropped(tmp_path, to):
    ds = cfagg.read(aggregation(tmp_path, ("a", "b"))).isel(a=slice(2, 2))
    with pytest.raises(cfagg.errors.LossError, match="an array without elements"):
        cfagg.write(ds, tmp_path / "out.nc", to=to)
    assert [loss.what for loss in cfagg.write(ds, tmp_path / "out.nc", to=to, on_loss="drop").losses] == [
        "an array without elements",
        "the variable",
    ]


def test_scalar_fragments_in_the_aggregation_file_itself_are_no_missing_ones_in_cfa06(tmp_path):
    array = {"directions": True, "pdimensions": [], "pshape": [], "Partitions": []}
    array["Partitions"] = [{"index": [], "location": [], "data": {"shape": [], "ncvar": "own"}}]
    private = {"own": ([], np.array(7, "i2"), {}, None)}
    source = nca_files.aggregation(tmp_path / "agg.nca", "tas", "i2", {}, array, private=private)
    cfagg.convert(source, tmp_path / "out.nc", to="CFA-0.6.2")
    assert read(tmp_path / "out.nc").item() == 7


@pytest.mark.parametrize("rows", [slice(None), slice(0, 2)])
@pytest.mark.parametrize("to", WRITTEN)
def test_facts_about_fragments_stay_one_coordinate_when_a_dataset_is_written(tmp_path, to, rows):
    for k in range(2):
        nca_files.fragment(tmp_path / f"{k}.nc", "tas", VALUES[k][:2], ["x"])
    names = [["0.nc"], ["1.nc"]]
    more = {"terms": {"id": [["first"], ["second"]], "level": [["a"], ["b"]]}}
    lengths = {"x": 4, "y": 1}
    path = instruction_files.cfa(
        tmp_path / "in.nc", "tas", "f8", lengths, [[2, 2], [1]], names, "tas", "nc", {}, **more
    )
    with netCDF4.Dataset(path, "a") as file:
        file.createVariable("numbers", "i4", ("f_x", "f_y"))[:] = [[3], [5]]
        file["tas"].aggregated_data += " run: numbers"
    ds = cfagg.read(path).isel(x=rows)
    ds = ds.assign_coords(level=ds["level"].str.upper())
    for name in ("once.nc", "twice.nc"):
        report = cfagg.write(ds, tmp_path / name, to=to)
        found = cfagg.read(tmp_path / name)
        xr.testing.assert_identical(found["tas"], ds["tas"])
        assert (report.losses, set(found.coords)) == ((), {"id", "level", "run"})
        with netCDF4.Dataset(tmp_path / name) as file:
            named = getattr(file["tas"], "coordinates", "").split()
            assert sorted(named) == sorted({"id", "level", "run"} & set(file.variables))
        ds = found
