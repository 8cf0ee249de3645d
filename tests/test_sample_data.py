"""The samples hold what their table says, and cfagg reads the values that netCDF4 and NumPy find by themselves."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.demo import sample
from cfagg.errors import RepairWarning, SourceError

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "sample_data"
AGGREGATIONS = sorted(p.name for p in FOLDER.glob("*.nca"))
FROM_PACKAGES = {"sst.nca", "profiles.nc", "storms.nc"}  # made where the packages that hold the data are installed
STRICT = [name for name in AGGREGATIONS if "printed" not in name]


def stored(name: str, variable: str) -> np.ndarray:
    """Return the values as they stand in the file, without unpacking or masking."""
    with netCDF4.Dataset(FOLDER / name) as dataset:
        dataset.set_auto_maskandscale(False)
        return np.asarray(dataset[variable][...])


def contents(path: Path) -> tuple[object, ...]:
    """Return everything a netCDF file says."""
    with netCDF4.Dataset(path) as dataset:
        dataset.set_auto_maskandscale(False)
        groups = [dataset, *dataset.groups.values()]
        variables = {
            (group.path, name): (
                v.dimensions,
                str(v.dtype),
                {a: np.asarray(v.getncattr(a)).tolist() for a in v.ncattrs()},
                np.asarray(v[...]).tolist(),
            )
            for group in groups
            for name, v in group.variables.items()
        }
        sizes = {name: len(d) for name, d in dataset.dimensions.items()}
        return dataset.data_model, sizes, {a: dataset.getncattr(a) for a in dataset.ncattrs()}, variables


def text_of(name: str) -> tuple[str, str]:
    """Return the one aggregated variable of a sample and its nca_array attribute."""
    with netCDF4.Dataset(FOLDER / name) as dataset:
        ((variable, text),) = [(n, v.nca_array) for n, v in dataset.variables.items() if "nca_array" in v.ncattrs()]
    return variable, text


def read(name: str, variable: str) -> np.ndarray:
    with cfagg.read(FOLDER / name) as dataset:
        return np.asarray(dataset[variable].values)


def test_all_samples_together_stay_below_two_megabytes() -> None:
    assert sum(p.stat().st_size for p in FOLDER.rglob("*") if p.is_file()) < 2_000_000


def test_the_script_makes_the_committed_contents_again(tmp_path: Path) -> None:
    runpy.run_path(str(FOLDER / "make.py"))["main"](tmp_path)
    made = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    assert {p.name for p in FOLDER.glob("*.nc*")} - FROM_PACKAGES <= {str(p) for p in made}
    assert not [p for p in made if contents(tmp_path / p) != contents(FOLDER / p)]


def test_every_file_is_described_and_the_origin_is_named() -> None:
    text = (FOLDER / "SOURCES.md").read_text(encoding="utf-8")
    assert not [p.name for p in (*FOLDER.glob("*.nc*"), *FOLDER.glob("pp/*")) if p.name not in text]
    assert "Open Government Licence v3.0" in text


def test_a_sample_is_found_by_name_and_an_unknown_one_is_refused() -> None:
    assert sample("sst.nca").samefile(FOLDER / "sst.nca")
    with pytest.raises(SourceError, match=r"no sample 'other\.nca'.*figure1\.nca"):
        sample("other.nca")


@pytest.mark.parametrize("name", STRICT)
def test_references_are_relative_and_lead_to_the_described_variables(name: str) -> None:
    for partition in json.loads(text_of(name)[1])["Partitions"]:
        data = partition["data"]
        assert not Path(data.get("file", name)).is_absolute()
        with netCDF4.Dataset(FOLDER / data.get("file", name)) as dataset:
            assert dataset[data["ncvar"]].shape == tuple(data["shape"])


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_the_global_attribute_names_both_conventions(name: str) -> None:
    with netCDF4.Dataset(FOLDER / name) as dataset:
        assert set(dataset.Conventions.split()) == {"CF-1.5", "NCA"}


@pytest.mark.parametrize("name", STRICT)
def test_sizes_and_partition_matrix_are_those_of_the_file(name: str) -> None:
    variable, text = text_of(name)
    aggregation = cfagg.open_aggregation(FOLDER / name, variable)
    described = json.loads(text)
    sizes = dict(zip(aggregation.dims, aggregation.grid.matrix_shape, strict=True))
    assert [sizes[d] for d in described["pdimensions"]] == described["pshape"]
    assert len(aggregation.partitions) == len(described["Partitions"])


def test_example_2_has_the_sizes_and_first_coordinates_of_the_text() -> None:
    with cfagg.read(FOLDER / "temperature.nca", decode_times=False) as dataset:
        assert dict(dataset.sizes) == {"time": 48, "lat": 64, "lon": 128}
        time = [164569, 164599.5, 164630.5, 164660, 164689.5, 164720, 164750.5]
        np.testing.assert_array_equal(dataset["time"][:7], time)
        np.testing.assert_allclose(
            dataset["lat"][:3], [-87.8638000488281, -85.0965270996094, -82.3129119873047], rtol=1e-12
        )
        np.testing.assert_array_equal(dataset["lon"][:4], [0, 2.8125, 5.625, 8.4375])


def test_example_2_is_its_two_files_one_after_the_other() -> None:
    expected = np.concatenate([stored("test1.nc", "tas"), stored("test2.nc", "tas2")])
    found = read("temperature.nca", "tas")
    assert found.dtype == "f4"
    np.testing.assert_array_equal(found, expected)


def test_example_3_is_reversed_transposed_and_converted_to_kelvin() -> None:
    private = stored("temperature2.nca", "nca_45sdf83745").astype("f8")
    first = (private + 273.15).astype("f4").transpose(1, 2, 0)[::-1]
    found = read("temperature2.nca", "tas")
    np.testing.assert_array_equal(found, np.concatenate([first, stored("test2.nc", "tas2")]))


def test_examples_2_and_3_hold_the_same_values() -> None:
    np.testing.assert_array_equal(read("temperature.nca", "tas"), read("temperature2.nca", "tas"))


@pytest.mark.parametrize("name", ["temperature", "temperature2"])
def test_an_example_as_printed_is_repaired_with_a_warning(name: str) -> None:
    with pytest.warns(RepairWarning):
        found = read(f"{name}_printed.nca", "tas")
    np.testing.assert_array_equal(found, read(f"{name}.nca", "tas"))


def test_the_private_variable_is_not_part_of_the_dataset() -> None:
    with cfagg.read(FOLDER / "temperature2.nca") as dataset:
        assert set(dataset.variables) == {"time", "lat", "lon", "tas"}


def test_figure_1_counts_from_0_to_55() -> None:
    found = read("figure1.nca", "p")
    assert found.dtype == "i4"
    np.testing.assert_array_equal(found, np.arange(56).reshape(8, 7))


def test_each_packed_partition_is_unpacked_by_its_own_rule() -> None:
    reals, shorts, bytes_ = (stored(f"packed_{kind}.nc", "tas") for kind in ("float", "short", "byte"))
    valid = (shorts != -32767) & (shorts >= -840) & (shorts <= 80)
    unsigned = bytes_.view("u1")
    expected = np.concatenate(
        [
            np.where(reals == -999, np.nan, reals),
            np.where(valid, shorts * 0.01 + 5 + 273.15, np.nan),
            np.where(unsigned == 255, np.nan, unsigned * 0.5 + 200),
        ]
    )
    found = read("packed.nca", "tas")
    assert int(np.isnan(expected).sum()) == 9 + 2
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found, expected.astype("f4"), rtol=1.2e-7)


def test_every_month_is_unpacked_by_its_own_scale_and_offset() -> None:
    months = sorted((FOLDER / "sst").glob("*.nc"))
    expected, scales = [], set()
    for path in months:
        with netCDF4.Dataset(path) as month:
            variable = month["surface_temperature"]
            scales.add((variable.scale_factor, variable.add_offset))
            expected.append(np.ma.masked_array(variable[...]).astype("f4").filled(np.nan))
    found = read("sst.nca", "surface_temperature")
    assert len(months) == 54
    assert len(scales) > 50
    np.testing.assert_array_equal(found, np.concatenate(expected))
    assert 285 < np.nanmin(found) < np.nanmax(found) < 306


def test_a_point_series_of_the_months_equals_the_whole() -> None:
    whole = read("sst.nca", "surface_temperature")
    with cfagg.read(FOLDER / "sst.nca") as dataset:
        series = dataset["surface_temperature"][:, 9, 50].values
    np.testing.assert_array_equal(series, whole[:, 9, 50])


def test_storms_are_trajectories_whose_fixes_follow_each_other() -> None:
    with netCDF4.Dataset(FOLDER / "storms.nc") as dataset:
        size, hours = dataset["row_size"][:].data, dataset["time"][:].data
        assert (dataset.featureType, dataset["storm"].cf_role, len(size)) == ("trajectory", "trajectory_id", 75)
        assert dataset["row_size"].sample_dimension == "obs"
        assert size.sum() == len(hours) == 2468
        assert all((np.diff(track) >= 0).all() for track in np.split(hours, np.cumsum(size)[:-1]))
        names = [str(n) for n in netCDF4.chartostring(dataset["storm"][:])]
        katrina = np.repeat(np.arange(75), size) == names.index("Katrina 2005")
        assert dataset["wind"][:][katrina].max() == 150
        assert dataset["pressure"][:][katrina].min() == 902
        missing = np.ma.getmaskarray(dataset["gale"][:])
        assert missing[hours < 8760].all()
        assert 0.02 < missing[hours >= 8760].mean() < 0.04


def test_profiles_go_down_from_the_surface_and_hold_no_missing_level() -> None:
    with netCDF4.Dataset(FOLDER / "profiles.nc") as dataset:
        size, depth = dataset["row_size"][:].data, dataset["depth"][:].data
        assert (dataset.featureType, len(size), size.sum()) == ("profile", 48, 1887)
        assert all(p[0] == 5 and (np.diff(p) > 0).all() for p in np.split(depth, np.cumsum(size)[:-1]))
        for name, low, high in (("potential_temperature", 273, 303), ("practical_salinity", 30, 40)):
            values = dataset[name][:]
            assert not np.ma.is_masked(values)
            assert low < values.min() < values.max() < high, (name, values.min(), values.max())
