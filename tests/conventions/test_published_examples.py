"""The examples that CF-1.13 (section 2.8, appendix L) and CFA-0.6.2 publish, as files, with what the texts say of them.

Where an example contradicts its text, the text holds: attributes stand with the variable that they describe,
aggregation variables are scalars, names of variables agree, and packed values fit into their type.
"""

from __future__ import annotations

import itertools

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.errors import AccessError, UnsupportedError
from tests import instruction_files as files
from tests import nca_files

SHAPE = {"time": 12, "level": 1, "latitude": 73, "longitude": 144}
MONTHS = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334]
SIZES = [[3, 9], [1], [73], [144]]
HALVES = [[6, 6], [1], [73], [144]]
TERMS = {"map": "fragment_map", "uris": "fragment_uris", "identifiers": "fragment_identifiers"}
CFA_TERMS = {k: f"aggregation_{k}" for k in ("location", "file", "format", "address")}
KELVIN = {"standard_name": "air_temperature", "units": "K", "cell_methods": "time: mean"}
DAYS = {"standard_name": "time", "units": "days since 2001-01-01", "calendar": "standard"}

TEMPERATURE = np.random.default_rng(0).normal(280, 10, tuple(SHAPE.values())).round(3)


def file(folder, conventions="CF-1.13", lengths=None, fragments=None, *, times=True):
    """Begin an aggregation file with its dimensions and the coordinates that are no aggregations."""
    root = netCDF4.Dataset(folder / "aggregation.nc", "w")
    root.Conventions = conventions
    files.dimensions(root, **(SHAPE if lengths is None else lengths), **(fragments or {}))
    if times and "time" in root.dimensions:
        time = root.createVariable("time", "f8", ("time",))
        time.setncatts(DAYS)
        time[:] = MONTHS
    return root


def spans(folder, cuts, name="temperature", values=TEMPERATURE, dims=tuple(SHAPE), attributes=None, form="part{}.nc"):
    """Write the fragments of an array cut along its first dimension."""
    for k, (start, stop) in enumerate(itertools.pairwise(cuts)):
        nca_files.fragment(folder / form.format(k), name, values[start:stop], dims, attributes or {"units": "K"})


def read(folder, **options):
    return cfagg.read(folder / "aggregation.nc", **options)


def test_cf_example_2_3_six_fragments_over_latitude_and_longitude(tmp_path):
    values = np.arange(17 * 180 * 360, dtype="f4").reshape(17, 180, 360)
    for k, letter in enumerate("ABCDEF"):
        rows = [slice(0, 90), slice(90, 135), slice(135, 180)][k // 2]
        columns = slice(0, 180) if k % 2 == 0 else slice(180, 360)
        nca_files.fragment(tmp_path / f"file_{letter}.nc", "tmp", values[:, rows, columns], ["z", "y", "x"])
    lengths = {"level": 17, "latitude": 180, "longitude": 360}
    with file(tmp_path, lengths=lengths, fragments={"f_level": 1, "f_latitude": 3, "f_longitude": 2}) as root:
        files.sizes(root, "fragment_map", [[17], [90, 45, 45], [180, 180]])
        names = [[[f"file_{a}.nc", f"file_{b}.nc"] for a, b in ("AB", "CD", "EF")]]
        files.text(root, "fragment_uris", ("f_level", "f_latitude", "f_longitude"), names)
        files.text(root, "fragment_identifiers", (), "tmp")
        files.aggregated(root, "temperature", "f8", lengths, TERMS, KELVIN)
    ds = read(tmp_path)
    np.testing.assert_array_equal(ds.temperature.values, values)
    sizes = cfagg.open_aggregation(tmp_path / "aggregation.nc", "temperature").grid.sizes
    assert sizes == ((17,), (90, 45, 45), (180, 180))


def cf_file(folder, uris, *, times=True):
    """Write what examples L.1, L.2 and L.5 have in common."""
    fragments = {"f_time": 2, "f_level": 1, "f_latitude": 1, "f_longitude": 1}
    root = file(folder, fragments=fragments, times=times)
    files.sizes(root, "fragment_map", SIZES)
    dims = ("f_time", "f_level", "f_latitude", "f_longitude")
    files.text(root, "fragment_uris", dims, np.array(uris, object).reshape(2, 1, 1, 1))
    files.text(root, "fragment_identifiers", (), "temperature")
    return root


def test_cf_example_l_1_relative_uris(tmp_path):
    spans(tmp_path, [0, 3, 12])
    (tmp_path / "part0.nc").rename(tmp_path / "January-March.nc")
    (tmp_path / "part1.nc").rename(tmp_path / "April-December.nc")
    with cf_file(tmp_path, ["January-March.nc", "April-December.nc"]) as root:
        files.aggregated(root, "temperature", "f8", SHAPE, TERMS, KELVIN)
    ds = read(tmp_path, decode_times=False)
    np.testing.assert_array_equal(ds.temperature.values, TEMPERATURE)
    assert ds.time.values.tolist() == MONTHS
    assert ds.temperature.attrs == KELVIN


def test_cf_example_l_2_absolute_uris_and_an_aggregated_coordinate(tmp_path):
    place = tmp_path / "data"
    place.mkdir()
    spans(place, [0, 3, 12])
    spans(place, [0, 3, 12], "time", np.array(MONTHS, "f8"), ["time"], DAYS)
    uris = [f"file://{place}/part0.nc", "https://remote.host/data/April-December.nc"]
    with cf_file(tmp_path, uris, times=False) as root:
        files.sizes(root, "fragment_map_time", [[3, 9]])
        files.text(root, "fragment_uris_time", ("f_time",), uris)
        files.text(root, "fragment_identifiers_time", (), "time")
        files.aggregated(root, "temperature", "f8", SHAPE, TERMS, KELVIN)
        files.aggregated(root, "time", "f8", ["time"], {k: f"{v}_time" for k, v in TERMS.items()}, DAYS)
    with pytest.raises(AccessError, match=r"variable 'time', partition \(1,\).*allow=\['https://remote\.host/data'\]"):
        read(tmp_path)
    ds = read(tmp_path, drop_variables="time")
    np.testing.assert_array_equal(ds.temperature[:3].values, TEMPERATURE[:3])
    with pytest.raises(AccessError, match=r"allow=\['https://remote\.host/data'\]"):
        ds.temperature[3:].load()
    found = cfagg.open_aggregation(tmp_path / "aggregation.nc", "time")
    assert (found.dims, found.partitions.file_name(0)) == (("time",), f"{place}/part0.nc")


def test_cf_example_l_2_reads_its_times_where_both_fragments_are_local(tmp_path):
    spans(tmp_path, [0, 3, 12])
    spans(tmp_path, [0, 3, 12], "time", np.array(MONTHS, "f8"), ["time"], DAYS)
    uris = [f"file://{tmp_path}/part{k}.nc" for k in range(2)]
    with cf_file(tmp_path, uris, times=False) as root:
        files.sizes(root, "fragment_map_time", [[3, 9]])
        files.text(root, "fragment_uris_time", ("f_time",), uris)
        files.text(root, "fragment_identifiers_time", (), "time")
        files.aggregated(root, "temperature", "f8", SHAPE, TERMS, KELVIN)
        files.aggregated(root, "time", "f8", ["time"], {k: f"{v}_time" for k, v in TERMS.items()}, DAYS)
    ds = read(tmp_path)
    np.testing.assert_array_equal(ds.sel(time="2001-12").temperature.values, TEMPERATURE[11:])


def test_cf_example_l_3_96_fragments(tmp_path):
    edges = [np.arange(13), [0, 1], [0, 37, 73], [0, 36, 72, 108, 144]]
    uris = np.empty((12, 1, 2, 4), object)
    for k, index in enumerate(np.ndindex(uris.shape)):
        uris[index] = f"{k}.nc"
        box = tuple(slice(e[i], e[i + 1]) for e, i in zip(edges, index, strict=True))
        nca_files.fragment(
            tmp_path / f"{k}.nc", "temperature", TEMPERATURE[box][0, 0], ["y", "x"], format="NETCDF3_CLASSIC"
        )
    fragments = {"f_time": 12, "f_level": 1, "f_latitude": 2, "f_longitude": 4}
    with file(tmp_path, fragments=fragments) as root:
        files.sizes(root, "fragment_map", [[1] * 12, [1], [37, 36], [36] * 4])
        files.text(root, "fragment_uris", tuple(fragments), uris)
        files.text(root, "fragment_identifiers", (), "temperature")
        files.aggregated(root, "temperature", "f8", SHAPE, TERMS, KELVIN)
        pressure = root.createVariable("pressure", "f8", tuple(SHAPE))
        pressure.setncatts(KELVIN | {"standard_name": "air_pressure", "units": "hPa"})
        pressure[:] = TEMPERATURE + 700
    ds = read(tmp_path)
    assert cfagg.open_aggregation(tmp_path / "aggregation.nc", "temperature").grid.matrix_shape == (12, 1, 2, 4)
    np.testing.assert_array_equal(ds.temperature.values, TEMPERATURE)
    np.testing.assert_array_equal(ds.pressure.values, TEMPERATURE + 700)


STATIONS = {"Harwell": 5000, "Abingdon": 4000, "Lambourne": 6000}


def stations(folder, counts, names):
    """Write one file a station; `names` are those of time in each. Return what they hold, joined."""
    rng = np.random.default_rng(3)
    joined = {"tas": [], "time": [], "lon": [], "lat": []}
    for (station, n), time in zip(counts.items(), names, strict=True):
        with netCDF4.Dataset(folder / f"{station}.nc", "w") as root:
            files.dimensions(root, obs=n)
            for key, name, dims, units in (
                ("tas", "tas", ("obs",), "K"),
                ("time", time, ("obs",), "days since 1970-01-01"),
                ("lon", "lon", (), "degrees_east"),
                ("lat", "lat", (), "degrees_north"),
            ):
                values = rng.normal(size=n if dims else ()).astype("f4")
                variable = root.createVariable(name, "f4", dims)
                variable.units = units
                variable[...] = values
                joined[key].append(np.atleast_1d(values))
    return {key: np.concatenate(parts) for key, parts in joined.items()}


def test_cf_example_l_4_a_discrete_sampling_geometry(tmp_path):
    expected = stations(tmp_path, STATIONS, ["t1", "t2", "t3"])
    with file(tmp_path, lengths={"station": 3, "obs": 15000}, fragments={"f_station": 3}) as root:
        root.featureType = "timeSeries"
        root.createVariable("row_size", "i4", ("station",))[:] = list(STATIONS.values())
        root["row_size"].sample_dimension = "obs"
        files.sizes(root, "fragment_map", [list(STATIONS.values())])
        files.sizes(root, "fragment_map_latlon", [[1, 1, 1]])
        files.text(root, "fragment_uris", ("f_station",), [f"{s}.nc" for s in STATIONS])
        for name, identifier in (("", "tas"), ("_lat", "lat"), ("_lon", "lon")):
            files.text(root, f"fragment_identifiers{name}", (), identifier)
        files.text(root, "fragment_identifiers_time", ("f_station",), ["t1", "t2", "t3"])
        tas = {"units": "K", "coordinates": "time lat lon"}
        files.aggregated(root, "tas", "f4", ["obs"], TERMS, tas)
        time = TERMS | {"identifiers": "fragment_identifiers_time"}
        files.aggregated(root, "time", "f4", ["obs"], time, {"units": "days since 1970-01-01"})
        for name, units in (("lon", "degrees_east"), ("lat", "degrees_north")):
            terms = TERMS | {"map": "fragment_map_latlon", "identifiers": f"fragment_identifiers_{name}"}
            files.aggregated(root, name, "f4", ["station"], terms, {"units": units})
    ds = read(tmp_path, decode_times=False)
    for name, values in expected.items():
        np.testing.assert_array_equal(ds[name].values, values)
    assert ds.row_size.values.tolist() == [5000, 4000, 6000]
    assert (ds.tas.dims, ds.lat.dims) == (("obs",), ("station",))


def test_cf_example_l_5_an_ancillary_variable_of_unique_values(tmp_path):
    spans(tmp_path, [0, 3, 12])
    identifiers = ["04b9-7eb5-4046-97b-0bf8", "05ee0-a183-43b3-a67-1eca"]
    with cf_file(tmp_path, ["part0.nc", "part1.nc"]) as root:
        files.sizes(root, "fragment_map_uid", [[3, 9]])
        files.text(root, "fragment_unique_values", ("f_time",), identifiers)
        files.aggregated(root, "temperature", "f8", SHAPE, TERMS, KELVIN | {"ancillary_variables": "uid"})
        terms = {"unique_values": "fragment_unique_values", "map": "fragment_map_uid"}
        files.aggregated(root, "uid", str, ["time"], terms, {"missing_value": ""})
    ds = read(tmp_path)
    assert ds.uid.values.tolist() == [identifiers[0]] * 3 + [identifiers[1]] * 9
    np.testing.assert_array_equal(ds.temperature.where(ds.uid == identifiers[1], drop=True).values, TEMPERATURE[3:])


def test_cf_example_l_6_a_scalar(tmp_path):
    nca_files.fragment(tmp_path / "file.nc", "tas", np.float64(287.25), [], {"units": "K"})
    with file(tmp_path, lengths={}) as root:
        files.sizes(root, "fragment_map", [])
        files.text(root, "fragment_uris", (), "file.nc")
        files.text(root, "fragment_identifiers", (), "tas")
        for name, value in (("time", 0), ("height", 1.5), ("latitude", 43.7), ("longitude", 7.27)):
            root.createVariable(name, "f8", ())[...] = value
        coordinates = {"coordinates": "time height latitude longitude"}
        files.aggregated(root, "temperature", "f8", [], TERMS, KELVIN | coordinates)
    ds = read(tmp_path)
    assert (ds.temperature.dims, ds.temperature.item(), ds.height.item()) == ((), 287.25, 1.5)


def cfa_file(folder, names, addresses="temp", *, group="", substitutions=None, formats="nc", times=True):
    """Write what the examples of CFA-0.6.2 have in common."""
    fragments = {"f_time": 2, "f_level": 1, "f_latitude": 1, "f_longitude": 1}
    root = file(folder, "CF-1.10 CFA-0.6.2", fragments=fragments, times=times)
    dims = ("f_time", "f_level", "f_latitude", "f_longitude")
    files.sizes(root, f"{group}aggregation_location", HALVES)
    given = {} if substitutions is None else {"substitutions": substitutions}
    files.text(root, f"{group}aggregation_file", dims, np.array(names, object).reshape(2, 1, 1, 1), **given)
    files.text(root, f"{group}aggregation_format", (), formats)
    if isinstance(addresses, str):
        addresses = [addresses, addresses]
    files.text(root, f"{group}aggregation_address", dims, np.array(addresses, object).reshape(2, 1, 1, 1))
    return root


def halves(folder):
    spans(folder, [0, 6, 12], "temp")
    (folder / "part0.nc").rename(folder / "January-June.nc")
    (folder / "part1.nc").rename(folder / "July-December.nc")


NAMES = ["January-June.nc", "July-December.nc"]


def test_cfa_example_1a_two_files(tmp_path):
    halves(tmp_path)
    with cfa_file(tmp_path, NAMES) as root:
        files.aggregated(root, "temp", "f8", SHAPE, CFA_TERMS, KELVIN)
    np.testing.assert_array_equal(read(tmp_path).temp.values, TEMPERATURE)


def test_cfa_example_1b_a_term_of_its_own(tmp_path):
    halves(tmp_path)
    known = ["764489ad-7bee-4228", "a4f8deb3-fae1-26b6"]
    with cfa_file(tmp_path, NAMES) as root:
        dims = ("f_time", "f_level", "f_latitude", "f_longitude")
        files.text(root, "fragment_id", dims, np.array(known, object).reshape(2, 1, 1, 1))
        files.aggregated(root, "temp", "f8", SHAPE, CFA_TERMS | {"tracking_id": "fragment_id"}, KELVIN)
    ds = read(tmp_path)
    np.testing.assert_array_equal(ds.temp.values, TEMPERATURE)
    assert ds.temp.tracking_id.values.tolist() == [known[0]] * 6 + [known[1]] * 6


def test_cfa_example_1c_a_substitution(tmp_path):
    halves(tmp_path)
    with cfa_file(tmp_path, [f"${{BASE}}{n}" for n in NAMES], substitutions="${BASE}: file://data1/") as root:
        files.aggregated(root, "temp", "f8", SHAPE, CFA_TERMS, KELVIN)
    with pytest.raises(UnsupportedError, match=r"file://data1/January-June\.nc"):
        read(tmp_path).temp.load()
    moved = read(tmp_path, substitutions={"BASE": f"file://{tmp_path}/"})
    np.testing.assert_array_equal(moved.temp.values, TEMPERATURE)


def inside(group, name, values, units):
    """Write a fragment without the level into the aggregation file."""
    variable = group.createVariable(name, "f8", ("half", "latitude", "longitude"))
    variable.units = units
    variable[:] = values[:, 0]


def test_cfa_example_2_a_fragment_in_the_file_itself_without_its_level(tmp_path):
    halves(tmp_path)
    with cfa_file(tmp_path, [NAMES[0], None], ["temp", "temp2"]) as root:
        files.dimensions(root, half=6)
        inside(root, "temp2", TEMPERATURE[6:] - 273.15, "degreesC")
        files.aggregated(root, "temp", "f8", SHAPE, CFA_TERMS, KELVIN)
    ds = read(tmp_path)
    np.testing.assert_allclose(ds.temp.values, TEMPERATURE, rtol=1e-12)
    assert set(ds.data_vars) == {"temp"}


def test_cfa_example_3_all_fragments_in_a_group_of_the_file(tmp_path):
    with cfa_file(tmp_path, [None, None], ["temp1", "temp2"], group="aggregation/", formats=None) as root:
        files.dimensions(root, half=6)
        inside(root["aggregation"], "temp1", TEMPERATURE[:6], "Kelvin")
        inside(root["aggregation"], "temp2", TEMPERATURE[6:] - 273.15, "degreesC")
        terms = {k: f"/aggregation/{v}" for k, v in CFA_TERMS.items()}
        files.aggregated(root, "temp", "f8", SHAPE, terms, KELVIN)
    np.testing.assert_allclose(read(tmp_path).temp.values, TEMPERATURE, rtol=1e-12)


def test_cfa_example_4_several_versions_of_a_fragment(tmp_path):
    for name, months, rows in (
        ("temp1", slice(0, 6), slice(0, 36)),
        ("t3", slice(0, 6), slice(36, 73)),
        ("temp4", slice(6, 12), slice(36, 73)),
    ):
        nca_files.fragment(tmp_path / f"{name}.nc", name, TEMPERATURE[months, :, rows], list(SHAPE), {"units": "K"})
    fragments = {"f_time": 2, "f_level": 1, "f_latitude": 2, "f_longitude": 1, "k": 2}
    names = [["temp1.nc", None], [None, None], ["local/gone.nc", "t3.nc"], ["temp4.nc", None]]
    addresses = [["temp1", None], ["temp2", None], ["temp3", "t3"], ["temp4", None]]
    # The text lists both hemispheres of the first half of the year, then of the second.
    order = [0, 2, 1, 3]
    with file(tmp_path, "CF-1.10 CFA-0.6.2", fragments=fragments) as root:
        files.sizes(root, "aggregation/location", [[6, 6], [1], [36, 37], [144]])
        for name, table in (("file", names), ("address", addresses)):
            values = np.array([table[i] for i in order], object).reshape(2, 1, 2, 1, 2)
            files.text(root, f"aggregation/{name}", tuple(fragments), values)
        files.text(root, "aggregation/format", (), "nc")
        files.dimensions(root, half=6, south=36)
        variable = root["aggregation"].createVariable("temp2", "f8", ("half", "south", "longitude"))
        variable.units = "degreesC"
        variable[:] = TEMPERATURE[6:, 0, :36] - 273.15
        terms = {k: f"/aggregation/{k}" for k in CFA_TERMS}
        files.aggregated(root, "temp", "f8", SHAPE, terms, KELVIN)
    np.testing.assert_allclose(read(tmp_path).temp.values, TEMPERATURE, rtol=1e-12)


def test_cfa_example_5_an_aggregated_coordinate_shares_the_files(tmp_path):
    halves(tmp_path)
    spans(tmp_path, [0, 6, 12], "time", np.array(MONTHS, "f8"), ["time"], DAYS, form="t{}.nc")
    with cfa_file(tmp_path, NAMES, times=False) as root:
        files.sizes(root, "aggregation_time/location", [[6, 6]])
        files.text(root, "aggregation_time/file", ("f_time",), ["t0.nc", "t1.nc"])
        files.text(root, "aggregation_time/address", ("f_time",), ["time", "time"])
        files.aggregated(root, "temp", "f8", SHAPE, CFA_TERMS, KELVIN)
        terms = {k: f"/aggregation_time/{k}" for k in ("location", "file", "address")}
        files.aggregated(root, "time", "f8", ["time"], terms | {"format": "aggregation_format"}, DAYS)
    np.testing.assert_array_equal(read(tmp_path).sel(time="2001-08").temp.values, TEMPERATURE[7:8])


def test_cfa_example_6_a_discrete_sampling_geometry(tmp_path):
    counts = {"Harwell": 4, "Abingdon": 5, "Lambourne": 6}
    expected = stations(tmp_path, counts, ["time"] * 3)
    lengths = {"station": 3, "obs": 15}
    with file(tmp_path, "CF-1.10 CFA-0.6.2", lengths=lengths, fragments={"f_station": 3}) as root:
        root.featureType = "timeSeries"
        files.sizes(root, "aggregation_location", [[4, 5, 6]])
        files.sizes(root, "aggregation_location_latlon", [[1, 1, 1]])
        files.text(root, "aggregation_file", ("f_station",), [f"{s}.nc" for s in counts])
        files.text(root, "aggregation_format", (), "nc")
        for name, units in (
            ("tas", "K"),
            ("time", "days since 1970-01-01"),
            ("lon", "degrees_east"),
            ("lat", "degrees_north"),
        ):
            along = ("station", "_latlon") if name.startswith("l") else ("obs", "")
            files.text(root, f"address_{name}", ("f_station",), [name] * 3)
            terms = CFA_TERMS | {"location": f"aggregation_location{along[1]}", "address": f"address_{name}"}
            files.aggregated(root, name, "f4", [along[0]], terms, {"units": units})
    ds = read(tmp_path, decode_times=False)
    for name, values in expected.items():
        np.testing.assert_array_equal(ds[name].values, values)


def test_cfa_example_7_packed_values_in_the_file_itself(tmp_path):
    stored = np.arange(12, dtype="i2") * np.int16(2978)
    packing = {"scale_factor": np.float32(1.1 / 32758), "add_offset": np.float32(270)}
    with file(tmp_path, "CF-1.10 CFA-0.6.2", lengths={"time": 12}, fragments={"f_time": 2, "t": 6}) as root:
        files.sizes(root, "aggregation/location", [[6, 6]])
        files.text(root, "aggregation/file", ("f_time",), [None, None])
        files.text(root, "aggregation/format", (), None)
        files.text(root, "aggregation/address", ("f_time",), ["/aggregation/temp1", "/aggregation/temp2"])
        for k in range(2):
            root["aggregation"].createVariable(f"temp{k + 1}", "i2", ("t",))[:] = stored[6 * k : 6 * k + 6]
        terms = {k: f"/aggregation/{k}" for k in CFA_TERMS}
        files.aggregated(root, "temp", "i2", ["time"], terms, KELVIN | packing)
    np.testing.assert_array_equal(read(tmp_path, mask_and_scale=False).temp.values, stored)
    np.testing.assert_allclose(read(tmp_path).temp.values, np.linspace(270, 271.1, 12), atol=1e-4)
