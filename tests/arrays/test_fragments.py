"""From partitions to sub-arrays: groups, aggregations of aggregations, formats, damaged and hostile files."""

import dataclasses
import os

import h5py
import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.arrays import fragments
from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.netcdf_source import open_source
from cfagg.errors import (
    AccessError,
    CfaggError,
    ConventionError,
    FragmentMismatchError,
    FragmentNotFoundError,
    FragmentReadError,
    LimitError,
    UnsupportedError,
)
from cfagg.storage.access import Access
from tests import nca_files


def open_reader(path, name="tas", allow=(), **options):
    group, found = open_source(path).find(name)
    return AggregationReader(found, Access(path, allow), group=group.path, **options)


def whole(reader):
    return reader.read([slice(None)] * len(reader.shape))


def values(*shape, dtype="f4"):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def refer(folder, data, shape=(3,), name="agg.nca", **more):
    """Write an NCA file with one partition that refers to `data`."""
    dims = ["t", "y", "x"][: len(shape)]
    content = nca_files.array(
        dims, [[0, n] for n in shape], lambda i, box: {"data": {"shape": list(shape), **data}, **more}
    )
    return nca_files.aggregation(folder / name, "tas", "f4", dict(zip(dims, shape, strict=True)), content)


def test_an_address_may_be_a_path_into_groups(tmp_path):
    nca_files.fragment(tmp_path / "a.nc", "tas", values(3), ["t"], group="model/run")
    for address in ("model/run/tas", "/model/run/tas"):
        path = refer(tmp_path, {"file": "a.nc", "ncvar": address}, name=f"{len(address)}.nca")
        assert whole(open_reader(path)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("holder", [None, "g", "g/h"])
def test_a_private_variable_is_found_in_the_group_and_above_it(tmp_path, holder):
    path = tmp_path / "agg.nca"
    if holder != "g/h":
        nca_files.fragment(path, "mine", values(3), ["t_mine"], {"nca_private": 1}, group=holder)
    content = nca_files.array(["t"], [[0, 3]], lambda i, box: {"data": {"ncvar": "mine", "shape": [3]}})
    private = {"mine": (["t"], values(3), {}, None)} if holder == "g/h" else None
    nca_files.aggregation(path, "tas", "f4", {"t": 3}, content, group="g/h", private=private)
    assert whole(open_reader(path, "g/h/tas")).tolist() == [0, 1, 2]


@pytest.mark.parametrize("said", [{}, {"units": "minutes"}], ids=["units of the inner file", "units repeated"])
def test_an_aggregation_of_aggregations_is_read_and_inner_references_start_at_the_inner_file(tmp_path, said):
    nca_files.simple(tmp_path / "inner", values(4, 3), ["t", "y"], [[0, 1, 4], [0, 3]], attributes={"units": "minutes"})
    content = nca_files.array(
        ["t", "y"],
        [[0, 2, 6], [0, 3]],
        lambda index, box: (
            {"data": {"file": "first.nc", "ncvar": "tas", "shape": [2, 3]}}
            if index[0] == 0
            else {
                "data": {"file": "inner/agg.nca", "ncvar": "tas", "shape": [4, 3]},
                "directions": {"t": False},
                **said,
            }
        ),
    )
    nca_files.fragment(tmp_path / "first.nc", "tas", values(2, 3), ["t", "y"])
    path = nca_files.aggregation(tmp_path / "outer.nca", "tas", "f4", {"t": 6, "y": 3}, content, {"units": "s"})
    expected = np.concatenate([values(2, 3), values(4, 3)[::-1] * 60])
    np.testing.assert_array_equal(whole(open_reader(path)), expected)
    np.testing.assert_array_equal(open_reader(path).read([slice(4, 1, -1), 2]), expected[4:1:-1, 2])


def test_a_partition_that_names_no_variable_is_refused(tmp_path):
    nca_files.fragment(tmp_path / "a.nc", "tas", values(3), ["t"])
    path = refer(tmp_path, {"file": "a.nc", "ncvar": "tas"})
    group, found = open_source(path).find("tas")
    nameless = dataclasses.replace(found, partitions=dataclasses.replace(found.partitions, address=np.array([-1])))
    with pytest.raises(FragmentNotFoundError, match=r"partition \(0,\): the partition names no variable of .*a\.nc"):
        fragments.Fragments(nameless, Access(path), AggregationReader, group.path).open(0)


def test_what_has_an_attribute_of_an_aggregation_and_is_none_is_refused(tmp_path):
    nca_files.fragment(tmp_path / "a.nc", "tas", values(3), ["t"], {"nca_array": "{}"})
    with pytest.raises(ConventionError, match="tas"):
        whole(open_reader(refer(tmp_path, {"file": "a.nc", "ncvar": "tas"})))


def test_a_reference_to_the_aggregation_itself_is_refused(tmp_path):
    for data in ({"ncvar": "tas"}, {"file": "agg.nca", "ncvar": "tas"}, {"file": "./agg.nca", "ncvar": "/tas"}):
        path = tmp_path / "agg.nca"
        path.unlink(missing_ok=True)
        refer(tmp_path, data)
        with pytest.raises(ConventionError, match=r"itself|private"):
            whole(open_reader(path))


def test_a_circle_of_aggregations_is_refused_and_shown(tmp_path):
    refer(tmp_path, {"file": "b.nca", "ncvar": "tas"}, name="a.nca")
    refer(tmp_path, {"file": "c.nca", "ncvar": "tas"}, name="b.nca")
    refer(tmp_path, {"file": "a.nca", "ncvar": "tas"}, name="c.nca")
    with pytest.raises(ConventionError, match=r"a.nca -> .*b.nca -> .*c.nca -> .*a.nca"):
        whole(open_reader(tmp_path / "a.nca"))


def test_aggregations_of_aggregations_end_at_a_depth(tmp_path):
    for i in range(12):
        refer(tmp_path, {"file": f"{i + 1}.nca", "ncvar": "tas"}, name=f"{i}.nca")
    nca_files.fragment(tmp_path / "12.nca", "tas", values(3), ["t"])
    with pytest.raises(LimitError, match=str(fragments.MAX_NESTING)):
        whole(open_reader(tmp_path / "0.nca"))
    assert whole(open_reader(tmp_path / "4.nca")).tolist() == [0, 1, 2]
    with pytest.raises(LimitError, match=str(fragments.MAX_NESTING)):
        whole(open_reader(tmp_path / "3.nca"))


@pytest.mark.parametrize("name", ["GRIB", "netCDF-5", "PP2"])
def test_a_format_that_is_not_netcdf_is_named(tmp_path, name):
    nca_files.fragment(tmp_path / "a.pp", "tas", values(3), ["t"])
    path = refer(tmp_path, {"file": "a.pp", "ncvar": "tas"}, format=name)
    with pytest.raises(UnsupportedError, match=rf"partition \(0,\).*{name}.*a.pp"):
        whole(open_reader(path))


@pytest.mark.parametrize(
    "content", [b"", b"CDF", b"CDF\x01", b"\x89HDF\r\n\x1a\n", b"garbage" * 100, b"CDF\x01" + bytes(200)]
)
def test_what_is_not_netcdf_raises_and_names_file_and_partition(tmp_path, content):
    (tmp_path / "a.nc").write_bytes(content)
    path = refer(tmp_path, {"file": "a.nc", "ncvar": "tas"})
    with pytest.raises(CfaggError, match=r"agg.nca, variable 'tas', partition \(0,\).*a.nc"):
        whole(open_reader(path))


FORMATS = {
    "contiguous": {},
    "chunked": {"chunksizes": [1, 30, 20]},
    "compressed": {"chunksizes": [1, 30, 20], "zlib": True, "shuffle": True, "fletcher32": True},
    "zstd": {"chunksizes": [1, 30, 20], "compression": "zstd"},
    "classic": {"format": "NETCDF3_CLASSIC"},
    "offset64": {"format": "NETCDF3_64BIT_OFFSET"},
    "data64": {"format": "NETCDF3_64BIT_DATA"},
    "records": {"format": "NETCDF3_CLASSIC", "unlimited": ["t"]},
}


@pytest.mark.few(12)
@pytest.mark.parametrize("storage", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("share", [0.03, 0.3, 0.6, 0.97])
def test_a_file_that_is_cut_off_never_gives_values(tmp_path, storage, share):
    noise = np.random.default_rng(0).random((40, 60, 40)).astype("f4")
    nca_files.fragment(tmp_path / "a.nc", "tas", noise, ["t", "y", "x"], **storage)
    data = (tmp_path / "a.nc").read_bytes()
    (tmp_path / "a.nc").write_bytes(data[: int(len(data) * share)])
    path = refer(tmp_path, {"file": "a.nc", "ncvar": "tas"}, (40, 60, 40))
    with pytest.raises(FragmentReadError, match=r"partition \(0, 0, 0\).*a.nc"):
        whole(open_reader(path))


@pytest.mark.parametrize("storage", FORMATS.values(), ids=FORMATS)
def test_every_format_and_storage_gives_its_values(tmp_path, storage):
    noise = np.random.default_rng(0).random((40, 60, 40)).astype("f4")
    nca_files.fragment(tmp_path / "a.nc", "tas", noise, ["t", "y", "x"], **storage)
    reader = open_reader(refer(tmp_path, {"file": "a.nc", "ncvar": "tas"}, (40, 60, 40)))
    np.testing.assert_array_equal(whole(reader), noise)
    np.testing.assert_array_equal(reader.read([slice(39, 3, -5), 7, slice(1, 39, 3)]), noise[39:3:-5, 7, 1:39:3])


@pytest.mark.parametrize("storage", ["compressed", "zstd"])
def test_a_flipped_bit_in_a_compressed_chunk_is_noticed(tmp_path, storage):
    noise = np.random.default_rng(0).random((40, 60, 40)).astype("f4")
    nca_files.fragment(tmp_path / "a.nc", "tas", noise, ["t", "y", "x"], **{**FORMATS[storage], "fletcher32": True})
    with h5py.File(tmp_path / "a.nc") as file:
        info = file["tas"].id.get_chunk_info(20)
    with (tmp_path / "a.nc").open("r+b") as file:
        file.seek(info.byte_offset + info.size // 2)
        byte = file.read(1)[0]
        file.seek(info.byte_offset + info.size // 2)
        file.write(bytes([byte ^ 16]))
    path = refer(tmp_path, {"file": "a.nc", "ncvar": "tas"}, (40, 60, 40))
    with pytest.raises(FragmentReadError, match=r"chunk .* damaged"):
        whole(open_reader(path))


def test_a_directory_as_a_partition_is_refused(tmp_path):
    (tmp_path / "a.nc").mkdir()
    with pytest.raises(FragmentReadError, match="a directory"):
        whole(open_reader(refer(tmp_path, {"file": "a.nc", "ncvar": "tas"})))


def test_a_fifo_as_a_partition_is_refused_and_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "a.nc")
    with pytest.raises(FragmentReadError, match="a FIFO"):
        whole(open_reader(refer(tmp_path, {"file": "a.nc", "ncvar": "tas"})))


def test_a_device_is_refused_even_where_allowed(tmp_path):
    path = refer(tmp_path, {"file": "/dev/zero", "ncvar": "tas"})
    with pytest.raises(FragmentReadError, match="a device"):
        whole(open_reader(path, allow=["/dev"]))


def test_a_file_without_permission_says_so(tmp_path):
    loop = tmp_path / "a.nc"
    loop.symlink_to(loop)
    with pytest.raises((FragmentReadError, FragmentNotFoundError), match=r"a\.nc"):
        whole(open_reader(refer(tmp_path, {"file": "a.nc", "ncvar": "tas"})))


def test_a_reference_outside_the_directory_names_the_partition_and_the_allow_that_admits_it(tmp_path):
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    other.mkdir()
    nca_files.fragment(other / "a.nc", "tas", values(3), ["t"])
    path = refer(home, {"file": "../other/a.nc", "ncvar": "tas"})
    with pytest.raises(AccessError, match=rf"partition \(0,\).*allow=\['{other}'\]"):
        whole(open_reader(path))
    assert whole(open_reader(path, allow=[other])).tolist() == [0, 1, 2]


def test_no_forbidden_file_is_filled_either(tmp_path):
    path = refer(tmp_path, {"file": "/nowhere/a.nc", "ncvar": "tas"})
    with pytest.raises(AccessError, match="/nowhere"):
        whole(open_reader(path, missing="fill"))


def test_hdf5_external_links_do_not_lead_out_of_the_allowed_places(tmp_path):
    home, secret = tmp_path / "home", tmp_path / "secret.nc"
    home.mkdir()
    nca_files.fragment(secret, "tas", values(3), ["t"])
    with h5py.File(home / "a.nc", "w") as file:
        file["tas"] = h5py.ExternalLink(str(secret), "/tas")
    with pytest.raises(AccessError, match="another file"):
        whole(open_reader(refer(home, {"file": "a.nc", "ncvar": "tas"})))


def test_hdf5_external_storage_does_not_read_any_file(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret words")
    home = tmp_path / "home"
    home.mkdir()
    with h5py.File(home / "a.nc", "w") as file:
        file.create_dataset("tas", (3,), "f4", external=[(str(tmp_path / "secret"), 0, 12)])
    with pytest.raises(AccessError, match="another file"):
        whole(open_reader(refer(home, {"file": "a.nc", "ncvar": "tas"})))


def test_hdf5_virtual_datasets_do_not_read_any_file(tmp_path):
    home, secret = tmp_path / "home", tmp_path / "secret.nc"
    home.mkdir()
    nca_files.fragment(secret, "tas", values(3), ["t"])
    with h5py.File(home / "a.nc", "w") as file:
        layout = h5py.VirtualLayout((3,), "f4")
        layout[:] = h5py.VirtualSource(str(secret), "tas", (3,))
        file.create_virtual_dataset("tas", layout)
    with pytest.raises(AccessError, match="another file"):
        whole(open_reader(refer(home, {"file": "a.nc", "ncvar": "tas"})))


def test_a_deflate_bomb_does_not_fill_the_memory(tmp_path):
    import zlib

    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("t", 100_000)
        ds.createVariable("tas", "f4", ("t",), zlib=True, shuffle=False, chunksizes=[100_000])[:] = 1
    with h5py.File(tmp_path / "a.nc", "r+") as file:
        file["tas"].id.write_direct_chunk((0,), zlib.compress(bytes(50_000_000)))
    with pytest.raises(FragmentReadError, match="decodes to too many bytes"):
        whole(open_reader(refer(tmp_path, {"file": "a.nc", "ncvar": "tas"}, (100_000,))))


def test_chunks_never_written_are_the_files_fill(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("t", 300)
        ds.createDimension("y", 1000)
        v = ds.createVariable("tas", "f4", ("t", "y"), zlib=True, chunksizes=[100, 1000], fill_value=np.float32(-7))
        v[100:200] = 1
    found = whole(open_reader(refer(tmp_path, {"file": "a.nc", "ncvar": "tas"}, (300, 1000))))
    assert np.isnan(found[:100]).all()
    assert (found[100:200] == 1).all()
    assert np.isnan(found[200:]).all()


def test_a_chunk_whose_filters_were_skipped_is_taken_as_it_is(tmp_path):
    plain = values(3, 100_000)
    nca_files.fragment(tmp_path / "a.nc", "tas", plain, ["t", "y"], zlib=True, shuffle=True, chunksizes=[1, 100_000])
    with h5py.File(tmp_path / "a.nc", "r+") as file:
        file["tas"].id.write_direct_chunk((1, 0), (plain[1] * 2).tobytes(), filter_mask=0b11)
    found = whole(open_reader(refer(tmp_path, {"file": "a.nc", "ncvar": "tas"}, (3, 100_000))))
    np.testing.assert_array_equal(found, [plain[0], plain[1] * 2, plain[2]])


def order_case(folder, coordinates, group=None):
    """An aggregation over a square fragment whose dimensions have names of their own."""
    nca_files.fragment(folder / "a.nc", "tas", values(4, 4), ["rows", "columns"], group=group, coordinates=coordinates)
    data = {"file": "a.nc", "ncvar": f"{group}/tas" if group else "tas", "shape": [4, 4]}
    content = nca_files.array(["lat", "lon"], [[0, 4], [0, 4]], lambda i, box: {"data": data})
    own = {
        "lat": (["lat"], np.arange(4.0), {"units": "degrees_north"}),
        "lon": (["lon"], np.arange(4.0), {"standard_name": "longitude"}),
    }
    return nca_files.aggregation(folder / "agg.nca", "tas", "f4", {"lat": 4, "lon": 4}, content, coordinates=own)


@pytest.mark.parametrize("group", [None, "model/run"])
def test_coordinates_show_a_transposed_square_whose_dimensions_have_other_names(tmp_path, group):
    path = order_case(
        tmp_path,
        {
            "rows": (["rows"], np.arange(4.0), {"axis": "X"}),
            "columns": (["columns"], np.arange(4.0), {"standard_name": "latitude"}),
        },
        group,
    )
    with pytest.raises(FragmentMismatchError, match=r"'rows' of size 4, has the coordinates of 'lon'.*'lat'"):
        whole(open_reader(path))


def swapped_case(folder, *, part=None, more=None, group=None):
    """An aggregation over a fragment with its own names, whose coordinates are interchanged."""
    shape = (4, 4) if part is None else (4, 5)
    east, north = {"standard_name": "longitude"}, {"standard_name": "latitude"}
    coordinates = {
        "lat": (["lat"], np.arange(float(shape[0])), east),
        "lon": (["lon"], np.arange(float(shape[1])), north),
    }
    dims = ["lat", "lon"]
    nca_files.fragment(folder / "a.nc", "tas", values(*shape), dims, group=group, coordinates=coordinates)
    told = {"data": {"file": "a.nc", "ncvar": f"{group}/tas" if group else "tas", "shape": list(shape)}}
    told |= {"part": part} if part else {}
    content = nca_files.array(dims, [[0, 4], [0, 4]], lambda i, box: told)
    own = {"lat": (["lat"], np.arange(4.0), north), "lon": (["lon"], np.arange(4.0), east)}
    return nca_files.aggregation(folder / "agg.nca", "tas", "f4", {"lat": 4, "lon": 4}, content, coordinates=own)


@pytest.mark.parametrize("options", [{}, {"part": "[(0, 4, 1), (0, 4, 1)]"}, {"group": "model/run"}])
def test_coordinates_show_a_transposed_square_whose_dimensions_have_the_same_names(tmp_path, options):
    path = swapped_case(tmp_path, **options)
    with pytest.raises(FragmentMismatchError, match=r"'lat' of size 4, has the coordinates of 'lon'"):
        whole(open_reader(path))


def test_errors_about_order_and_part_name_the_file_of_the_fragment(tmp_path):
    with pytest.raises(FragmentMismatchError, match=r"fragment 'tas' of .*a\.nc: dimension 0"):
        whole(open_reader(swapped_case(tmp_path)))
    told = {"part": "[(0, 1, 1), (1, 5, 1)]", "data": {"file": "b.nc", "ncvar": "tas", "shape": [1, 5]}}
    content = nca_files.array(["z", "t"], [[0, 1], [0, 4]], lambda i, box: told)
    nca_files.fragment(tmp_path / "b.nc", "tas", values(4), ["t"])
    path = nca_files.aggregation(tmp_path / "part.nca", "tas", "f4", {"z": 1, "t": 4}, content)
    with pytest.raises(CfaggError, match=r"fragment 'tas' of .*b\.nc: part"):
        whole(open_reader(path))


@pytest.mark.parametrize("options", [{}, {"part": "[(0, 4, 1), (0, 4, 1)]"}])
def test_an_index_hides_no_transposed_square(tmp_path, options):
    path = swapped_case(tmp_path, **options)
    cfagg.index(path)
    with pytest.raises(FragmentMismatchError, match=r"'lat' of size 4, has the coordinates of 'lon'"):
        cfagg.open_array(path, "tas")[...]


def test_coordinates_show_a_transposed_square_in_an_aggregation_of_aggregations(tmp_path):
    (tmp_path / "inner").mkdir()
    north, east = {"standard_name": "latitude"}, {"standard_name": "longitude"}
    nca_files.fragment(tmp_path / "inner" / "a.nc", "tas", values(4, 4), ["lat", "lon"])
    paths = []
    for folder, fragment, told in (("inner", "a.nc", (east, north)), (".", "inner/agg.nca", (north, east))):
        data = {"data": {"file": fragment, "ncvar": "tas", "shape": [4, 4]}}
        content = nca_files.array(["lat", "lon"], [[0, 4], [0, 4]], lambda i, box, data=data: data)
        own = {n: ([n], np.arange(4.0), a) for n, a in zip(("lat", "lon"), told, strict=True)}
        path = tmp_path / folder / "agg.nca"
        paths.append(nca_files.aggregation(path, "tas", "f4", {"lat": 4, "lon": 4}, content, coordinates=own))
    np.testing.assert_array_equal(whole(open_reader(paths[0])), values(4, 4))
    with pytest.raises(FragmentMismatchError, match=r"'lat' of size 4, has the coordinates of 'lon'"):
        whole(open_reader(paths[1]))


def test_a_square_whose_coordinates_fit_or_are_unknown_is_read(tmp_path):
    fitting = {"rows": (["rows"], np.arange(4.0), {"axis": "Y"}), "columns": (["columns"], np.arange(4.0), {})}
    for i, coordinates in enumerate(({}, fitting)):
        (tmp_path / str(i)).mkdir()
        path = order_case(tmp_path / str(i), coordinates)
        np.testing.assert_array_equal(whole(open_reader(path)), values(4, 4))


def test_units_of_one_dimension_that_both_have_in_the_file_show_no_transposed_square(tmp_path):
    metres, kilometres = {"units": "m"}, {"units": "km"}
    both = {n: ([n], np.arange(4.0), metres) for n in ("y", "x")}
    nca_files.fragment(tmp_path / "a.nc", "tas", values(4, 4), ["y", "x"], coordinates=both)
    told = {"data": {"file": "a.nc", "ncvar": "tas", "shape": [4, 4]}}
    content = nca_files.array(["y", "x"], [[0, 4], [0, 4]], lambda i, box: told)
    own = both | {"x": (["x"], np.arange(4.0), kilometres)}
    path = nca_files.aggregation(tmp_path / "agg.nca", "tas", "f4", {"y": 4, "x": 4}, content, coordinates=own)
    np.testing.assert_array_equal(whole(open_reader(path)), values(4, 4))


@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_a_file_that_was_replaced_by_a_link_after_it_was_allowed_is_refused(tmp_path, monkeypatch, form):
    (tmp_path / "home").mkdir()
    secret = nca_files.fragment(tmp_path / "secret.nc", "tas", values(3), ["t"], format=form)
    nca_files.fragment(tmp_path / "home" / "a.nc", "tas", values(3), ["t"], format=form)
    reader = open_reader(refer(tmp_path / "home", {"file": "a.nc", "ncvar": "tas"}))
    resolve = Access.resolve

    def swaps(self, reference):
        found = resolve(self, reference)
        if reference == "a.nc":
            (tmp_path / "home" / "a.nc").unlink(missing_ok=True)
            (tmp_path / "home" / "a.nc").symlink_to(secret)
        return found

    monkeypatch.setattr(Access, "resolve", swaps)
    with pytest.raises(AccessError, match=r"partition \(0,\): .*secret\.nc and lies outside"):
        whole(reader)


def test_a_packing_of_pp_is_refused_by_name(tmp_path):
    nca_files.fragment(tmp_path / "a.nc", "tas", values(3), ["t"])
    path = refer(tmp_path, {"file": "a.nc", "ncvar": "tas", "lbpack": 1}, format="netCDF")
    group, found = open_source(path).find("tas")
    layouts = [dataclasses.replace(one, packing=1) for one in found.partitions.layouts]
    packed = dataclasses.replace(found, partitions=dataclasses.replace(found.partitions, layouts=tuple(layouts)))
    with pytest.raises(UnsupportedError, match=r"partition \(0,\): the PP packing 1 of 'a\.nc'"):
        whole(AggregationReader(packed, Access(path), group=group.path))


def test_a_sub_array_is_opened_by_its_number_or_by_a_path_that_is_known_already(tmp_path):
    for k, name in enumerate(("a.nc", "b.nc")):
        nca_files.fragment(tmp_path / name, "tas", values(3) + k, ["t"])
    path = refer(tmp_path, {"file": "a.nc", "ncvar": "tas"})
    group, found = open_source(path).find("tas")
    opened = fragments.Fragments(found, Access(path), AggregationReader, group.path)
    assert opened.open(0).read([slice(0, 3, 1)]).tolist() == [0, 1, 2]
    assert opened.open(0, str(tmp_path / "b.nc")).read([slice(0, 3, 1)]).tolist() == [1, 2, 3]
