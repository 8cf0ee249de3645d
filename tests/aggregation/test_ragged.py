"""Ragged arrays and geometries of several files as one: each feature has the samples that its own file gives it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import netCDF4
import numpy as np
import numpy.testing as npt
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.cf.joining import describing
from cfagg.cli.main import main
from cfagg.errors import OptionError
from tests.aggregation.profiles import ALTITUDE, DATA, LATITUDE, LONGITUDE, TIME

ROLES = {"timeSeries": "timeseries_id", "trajectory": "trajectory_id", "profile": "profile_id"}


class Feature(NamedTuple):
    """A feature: its place, and the time, height and value of each sample."""

    name: Any
    latitude: float
    samples: tuple[tuple[float, float, float], ...]


class Form(NamedTuple):
    """How a file has features."""

    kind: str = "timeSeries"
    counts: bool = True
    hours: bool = False
    index: str = "i4"
    instances: str = "station"


def write(path: Path, features: list[Feature], form: Form | None = None) -> Path:
    """Write features as a ragged array, with counts or, the samples of all mixed, with indices."""
    form = form or Form()
    own = [(i, *s) for i, f in enumerate(features) for s in f.samples]
    if not form.counts:
        own = [own[k] for k in np.random.default_rng(len(own)).permutation(len(own))]
    of, time, height, value = (list(column) for column in zip(*own, strict=True)) if own else ([], [], [], [])
    text = isinstance(features[0].name, str)
    dim = form.instances
    with netCDF4.Dataset(path, "w") as ds:
        ds.featureType = form.kind
        ds.createDimension(dim, len(features))
        ds.createDimension("obs", len(own))
        made: dict[str, tuple[Any, tuple[str, ...], Any, dict[str, Any]]] = {
            "name": (str if text else "i8", (dim,), [f.name for f in features], {"cf_role": ROLES[form.kind]}),
            "lat": ("f8", (dim,), [f.latitude for f in features], LATITUDE),
            "time": ("f8", ("obs",), [t * (24 if form.hours else 1) for t in time], dict(TIME)),
            "alt": ("f4", ("obs",), height, ALTITUDE),
            "ta": ("f4", ("obs",), value, DATA | {"coordinates": "time lat alt name"}),
            "hus": ("f8", ("obs",), [10 * v for v in value], {
                "standard_name": "specific_humidity", "units": "1", "coordinates": "time lat alt name"}),
        }  # fmt: skip
        if form.hours:
            made["time"][3]["units"] = "hours since 2000-01-01"
        if form.counts:
            made["rows"] = ("i4", (dim,), [len(f.samples) for f in features], {"sample_dimension": "obs"})
        else:
            made["index"] = (form.index, ("obs",), of, {"instance_dimension": dim})
        for name, (dtype, dims, values, said) in made.items():
            one = ds.createVariable(name, dtype, dims, fill_value=-1 if name == "index" else None)
            one.setncatts(said)
            one[:] = np.array(values, object if dtype is str else None)
    return path


def features_of(ds: Any, name: str) -> dict[Any, Feature]:
    """Return the features of a variable of a dataset of netCDF4 or xarray, by what its attributes say alone."""
    variables = {k: (v.dims if hasattr(v, "dims") else v.dimensions, v) for k, v in ds.variables.items()}
    (obs,) = variables[name][0]

    def said(v: Any, attribute: str) -> Any:
        return v.attrs.get(attribute) if hasattr(v, "attrs") else getattr(v, attribute, None)

    def values(v: Any) -> Any:
        return np.asarray(v.values if hasattr(v, "values") else v[:])

    named = said(variables[name][1], "coordinates") or variables[name][1].encoding["coordinates"]
    beside = {said(variables[w][1], "standard_name"): variables[w] for w in named.split()}
    sizes = [(d, v) for d, v in variables.values() if said(v, "sample_dimension") == obs]
    indices = [v for d, v in variables.values() if d == (obs,) and said(v, "instance_dimension")]
    if sizes:
        (((dim,), rows),) = sizes
        of = np.repeat(np.arange(len(values(rows))), values(rows))
    else:
        (index,) = indices
        dim, of = said(index, "instance_dimension"), values(index)
    (label,) = (v for d, v in variables.values() if d == (dim,) and said(v, "cf_role"))
    time, height = (beside[k] for k in ("time", "altitude"))
    assert beside["latitude"][0] == (dim,)
    assert time[0] == height[0] == (obs,)
    days = values(time[1]) / (24 if said(time[1], "units").startswith("hours") else 1)
    table = list(zip(days.tolist(), values(height[1]).tolist(), values(variables[name][1]).tolist(), strict=True))
    assert len(of) == len(table)
    names = [v if isinstance(v, str) else int(v) for v in values(label).tolist()]
    assert len(set(names)) == len(names)
    samples = [tuple(sorted(s for s, k in zip(table, of.tolist(), strict=True) if k == i)) for i in range(len(names))]
    places = values(beside["latitude"][1]).tolist()
    return {n: Feature(n, y, s) for n, y, s in zip(names, places, samples, strict=True)}


def in_files(files: list[Path], name: str) -> dict[Any, Feature]:
    """Return the features that files have, as the netCDF library reads them."""
    out: dict[Any, Feature] = {}
    for path in files:
        with netCDF4.Dataset(path) as ds:
            own = features_of(ds, name)
        assert out.keys().isdisjoint(own)
        out |= own
    return out


@st.composite
def sets_of_files(draw: st.DrawFn) -> tuple[list[list[Feature]], list[Form]]:
    text = draw(st.booleans())
    kind = draw(st.sampled_from(list(ROLES)))
    counts = draw(st.booleans())
    numbers = draw(st.permutations(range(9)))
    cuts = sorted(draw(st.sets(st.integers(1, 8), min_size=1, max_size=3)))
    files = []
    for a, b in itertools.pairwise([0, *cuts, 9]):
        size = draw(st.lists(st.integers(0, 4), min_size=b - a, max_size=b - a))
        size[0] = max(size[0], 1)
        files.append([
            Feature(f"Zürich {n}" if text else n, n / 2, tuple((t, 10.0 * t, 100.0 * n + t) for t in range(s)))
            for n, s in zip(numbers[a:b], size, strict=True)
        ])  # fmt: skip
    return files, [Form(kind, counts, draw(st.booleans()), draw(st.sampled_from(["i1", "i4"]))) for _ in files]


@given(sets_of_files())
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_feature_of_all_files_has_the_samples_that_its_file_gives_it(
    tmp_path_factory: pytest.TempPathFactory, given: tuple[list[list[Feature]], list[Form]]
) -> None:
    folder = tmp_path_factory.mktemp("ragged")
    files = [write(folder / f"{k}.nc", *one) for k, one in enumerate(zip(*given, strict=True))]
    with cfagg.aggregate(files, output=folder / "out.nc", decode_times=False) as made:
        assert made.cfagg.report.why(0, len(files) - 1).joined
        for found in (made, cfagg.read(folder / "out.nc", decode_times=False)):
            for name in ("ta", "hus"):
                assert features_of(found, name) == in_files(files, name)
            assert found["ta"].dims == found["hus"].dims


def in_groups(path: Path, plain: Path, paths: dict[str, str]) -> Path:
    """Copy a file of `write`, with samples and counts or indices in a group, and what they refer to by paths."""
    with netCDF4.Dataset(plain) as old, netCDF4.Dataset(path, "w") as new:
        new.featureType = old.featureType
        inner = new.createGroup("in")
        for name, dim in old.dimensions.items():
            (inner if name == "obs" else new).createDimension(name, dim.size)
        for name, one in old.variables.items():
            home = inner if name in ("rows", "index") or "obs" in one.dimensions else new
            dtype = str if one.dtype is str else one.dtype
            made = home.createVariable(name, dtype, one.dimensions, fill_value=getattr(one, "_FillValue", None))
            said = {n: one.getncattr(n) for n in one.ncattrs() if n != "_FillValue"}
            made.setncatts({n: paths.get(v, v) if n.endswith("_dimension") else v for n, v in said.items()})
            made[:] = one[:]
    return path


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize(
    "paths", [{"obs": "/in/obs", "station": "/station"}, {"obs": "./obs", "station": "../station"}]
)
def test_dimensions_of_ragged_arrays_may_be_named_by_their_paths(
    tmp_path: Path, paths: dict[str, str], counts: bool
) -> None:
    one = [Feature(f"{k}", k / 2, tuple((t, 10.0 * t, 100.0 * k + t) for t in range(k))) for k in (3, 1, 2)]
    plain = [write(tmp_path / f"{k}.nc", own, Form(counts=counts)) for k, own in enumerate((one[:2], one[2:]))]
    files = [in_groups(tmp_path / f"in{k}.nc", path, paths) for k, path in enumerate(plain)]
    for found in (cfagg.aggregate(files, decode_times=False), cfagg.aggregate(files[0], decode_times=False)):
        expected = in_files(plain[: 2 if found.sizes["station"] == 3 else 1], "ta")
        assert features_of(found, "ta") == expected


def test_samples_in_a_dimension_of_the_same_name_in_another_group_have_no_counts(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.nc", [Feature("a", 0.5, ((0.0, 1.0, 2.0),))])
    path = in_groups(tmp_path / "in.nc", plain, {"obs": "/in/obs"})
    with netCDF4.Dataset(path, "a") as ds:
        other = ds.createGroup("other")
        other.createDimension("obs", 1)
        other.createVariable("tb", "f4", ("obs",)).setncatts({"standard_name": "brightness_temperature", "units": "K"})
    found = cfagg.aggregate(path)
    assert found.ta.dims != found.tb.dims


@pytest.mark.parametrize("to", ["NCA-0.1", "CFA-0.4", "CFA-0.6.2", "CF-1.13"])
def test_every_dialect_says_where_the_samples_of_ragged_arrays_are(tmp_path: Path, to: str) -> None:
    files = [
        write(tmp_path / f"{k}.nc", [Feature(f"{k}{i}", i, ((k, 0, i),) * (i + k)) for i in range(3)], Form(counts=c))
        for k, c in ((1, False), (2, False))
    ]
    cfagg.aggregate(files, output=tmp_path / "out.nc", to=to)
    assert features_of(cfagg.read(tmp_path / "out.nc", decode_times=False), "ta") == in_files(files, "ta")


def test_ragged_arrays_grow_by_new_features(tmp_path: Path) -> None:
    files = [
        write(
            tmp_path / f"{k}.nc", [Feature(f"{k}{i}", i, ((k, 0, i),) * (i + k)) for i in range(3)], Form(counts=False)
        )
        for k in range(3)
    ]
    cfagg.aggregate(files[:2], output=tmp_path / "out.nc")
    cfagg.aggregate(files[2:], output=tmp_path / "out.nc", append=True)
    cfagg.aggregate(files, output=tmp_path / "once.nc")
    assert (tmp_path / "out.nc").read_bytes() == (tmp_path / "once.nc").read_bytes()
    assert features_of(cfagg.read(tmp_path / "out.nc", decode_times=False), "ta") == in_files(files, "ta")


def test_indices_of_many_features_have_a_type_that_holds_them(tmp_path: Path) -> None:
    def features(k: int) -> list[Feature]:
        return [Feature(1000 * k + i, 0.0, ((k, 0.0, i),)) for i in range(100)]

    files = [write(tmp_path / f"{k}.nc", features(k), Form(counts=False, index="i1")) for k in range(3)]
    with netCDF4.Dataset(files[1], "a") as ds:
        ds["index"][0] = -1  # the sample of no feature that anybody knows
    with cfagg.aggregate(files, decode_times=False) as found:
        index = found["index"].values
        assert np.nanmax(index) == 299
        assert np.flatnonzero(np.isnan(index)).tolist() == [100]
        npt.assert_array_equal(found["name"].values[index[:100].astype(int)], found["ta"][:100])


@pytest.mark.parametrize(
    ("fill", "by"), [(1, "_FillValue"), (4, "_FillValue"), (4, "missing_value"), (-9, "missing_value")]
)
def test_what_files_declare_missing_is_no_index_and_no_other_is(tmp_path: Path, fill: int, by: str) -> None:
    """Of one file 4 is none of the features, of all it is that of the second file's second."""
    files = []
    for k in range(2):
        path = write(
            tmp_path / f"{k}.nc", [Feature(10 * k + i, 0.0, ((i, 0.0, i),)) for i in range(3)], Form(counts=False)
        )
        with netCDF4.Dataset(path, "a") as ds:
            ds.renameVariable("index", "old")
            del ds["old"].instance_dimension
            own = ds.createVariable("index", "i4", ("obs",), fill_value=fill if by == "_FillValue" else None)
            own.setncatts({"instance_dimension": "station", by: np.int32(fill)})
            own[:] = ds["old"][:]
            if fill < 0:
                own[1] = fill
        files.append(path)
    with cfagg.aggregate(files, decode_times=False) as found:
        index = found["index"].values
        assert np.isnan(index).sum() == (2 if fill < 2 else 0)
        of = np.flatnonzero(~np.isnan(index))
        npt.assert_array_equal(found["name"].values[index[of].astype(int)] % 10, found["ta"].values[of])


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("on_overlap", ["apart", "first", "last"])
def test_files_with_features_in_common_stay_apart_and_say_which(
    tmp_path: Path, counts: bool, on_overlap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("a", "b"), ("c", "b"), ("d",)
    files = [
        write(tmp_path / f"{k}.nc", [Feature(n, 1.0, ((k, 0.0, k),)) for n in own], Form(counts=counts))
        for k, own in enumerate(names)
    ]
    with cfagg.aggregate(files, on_overlap=on_overlap, decode_times=False) as found:
        for k, name in enumerate(("ta", "ta_1", "ta_2")):
            assert features_of(found, name) == in_files([files[k]], "ta")
        (answer, *_) = found.cfagg.report.why(0, 1).answers
        assert (answer.rule, answer.what) == ("features", "timeseries_id")
        assert "both have timeseries_id b" in str(answer)
        assert "one file" in answer.remedy
        (other, *_) = found.cfagg.report.why(0, 2).answers
        assert (other.rule, other.what) == ("crowded", "timeseries_id")
        assert "on_overlap" not in other.remedy
        assert "timeseries_id b" in str(found.cfagg.report)
    assert main(["aggregate", *map(str, files), "--on-overlap", on_overlap, "--why", str(files[0]), str(files[1])]) == 0
    assert "both have timeseries_id b" in capsys.readouterr().out


def test_files_with_the_same_counts_of_the_same_features_are_not_taken_for_the_same(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{k}.nc", [Feature("a", 1.0, ((k, 0.0, k),))]) for k in range(2)]
    for choice in ("apart", "first", "last"):
        with cfagg.aggregate(files, on_overlap=choice, decode_times=False) as found:
            assert [found["ta"].item(), found["ta_1"].item()] == [0, 1]
            assert found.cfagg.report.why(0, 1).answers[0].rule == "features"


@pytest.mark.parametrize("counts", [True, False])
def test_features_in_common_are_an_error_where_overlaps_are(tmp_path: Path, counts: bool) -> None:
    names = ("a", "b"), ("c", "b")
    files = [
        write(tmp_path / f"{k}.nc", [Feature(n, 1.0, ((k, 0.0, k),) * (k + 1)) for n in own], Form(counts=counts))
        for k, own in enumerate(names)
    ]
    with pytest.raises(OptionError, match=r"0.nc.*1.nc.* have a timeseries_id in common; put each feature into one"):
        cfagg.aggregate(files, on_overlap="error")


@pytest.mark.parametrize("counts", [True, False])
def test_features_in_another_order_have_other_samples_whatever_the_counts(tmp_path: Path, counts: bool) -> None:
    files = [
        write(
            tmp_path / f"{k}.nc",
            [Feature(n, 1.0, ((i, 0.0, ord(n)),) * 2) for i, n in enumerate(own)],
            Form(counts=counts),
        )
        for k, own in enumerate(("ab", "ba", "ab"))
    ]
    for k, path in enumerate(files):
        with netCDF4.Dataset(path, "a") as ds:
            ds.createVariable("member", "i4", ())[...] = k
            ds["member"].setncatts({"standard_name": "realization", "units": "1"})
            ds["ta"].coordinates += " member"
    with cfagg.aggregate(files, decode_times=False) as found:
        assert [found[n].size for n in ("ta", "ta_1")] == [8, 4]
        assert features_of(found.isel({found["ta"].dims[0]: 1}), "ta") == in_files(files[2:], "ta")
        assert features_of(found, "ta_1") == in_files(files[1:2], "ta")
        (answer, *_) = found.cfagg.report.why(0, 1).answers
        assert (answer.what, answer.one, answer.other) == ("order of timeseries_id", "a", "b")
        assert answer.remedy == "write both with the same order of timeseries_id"


@pytest.mark.parametrize(("counts", "wrong"), [(True, [2, 3]), (True, [5, -1]), (False, [0, 2]), (False, [-2, 0])])
def test_counts_and_indices_that_cannot_be_true_keep_files_apart(
    tmp_path: Path, counts: bool, wrong: list[int]
) -> None:
    files = [
        write(
            tmp_path / f"{k}.nc", [Feature(f"{k}{i}", 1.0, ((k, 0.0, k),) * 2) for i in range(2)], Form(counts=counts)
        )
        for k in range(3)
    ]
    with netCDF4.Dataset(files[1], "a") as ds:
        ds["rows" if counts else "index"][:2] = wrong
    with cfagg.aggregate(files, decode_times=False) as found:
        assert [found[f"ta{n}"].size for n in ("", "_1", "_2")] == [4, 4, 4]
        text = str(found.cfagg.report.why(0, 1).answers[0])
        assert ("do not add up to 4" if counts else "refers to none of the 2 features") in text
        assert "correct counts and indices" in found.cfagg.report.why(0, 1).answers[0].remedy


def test_more_indices_than_are_kept_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describing, "_COMPARED", 3)
    for counts in (True, False):
        files = [
            write(tmp_path / f"{k}{counts}.nc", [Feature(f"{k}", 1.0, ((k, 0.0, k),) * 4)], Form(counts=counts))
            for k in range(2)
        ]
        with cfagg.aggregate(files, decode_times=False) as found:
            why = found.cfagg.report.why(0, 1)
            assert why.joined is counts
            if counts:
                assert features_of(found, "ta") == in_files(files, "ta")
            else:
                assert "index has too many values to be changed: 4" in str(why.answers[0])
                assert "counts instead" in why.answers[0].remedy
                assert features_of(found, "ta") == in_files(files[:1], "ta")


def test_ragged_arrays_whose_features_have_no_names_stay_apart(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{k}.nc", [Feature(str(k), 1.0, ((k, 0.0, k),) * 2)]) for k in range(2)]
    for path in files:
        with netCDF4.Dataset(path, "a") as ds:
            del ds["name"].cf_role
            del ds["lat"].standard_name
            ds["lat"].units = "1"
    with cfagg.aggregate(files) as found:
        (answer, *_) = found.cfagg.report.why(0, 1).answers
        assert "whose features have no names" in str(answer)
        assert "cf_role" in answer.remedy


@pytest.mark.parametrize("change", ["packed", "two"])
def test_ragged_arrays_whose_counts_are_packed_or_not_the_only_ones_stay_apart(tmp_path: Path, change: str) -> None:
    files = [write(tmp_path / f"{k}.nc", [Feature(str(k), 1.0, ((k, 0.0, k),) * 2)]) for k in range(2)]
    for path in files:
        with netCDF4.Dataset(path, "a") as ds:
            if change == "packed":
                ds["rows"].scale_factor = 1.0
            else:
                ds.createVariable("more", "i4", ("station",))[:] = 1
                ds["more"].sample_dimension = "obs"
    with cfagg.aggregate(files) as found:
        (answer, *_) = found.cfagg.report.why(0, 1).answers
        assert answer.rule == "problem"
        assert "ragged array" in str(answer)
        assert [found[n].size for n in ("ta", "ta_1")] == [2, 2]


def test_counts_and_indices_are_not_mixed(tmp_path: Path) -> None:
    features = [[Feature(f"{k}{i}", 1.0, ((k, 0.0, k),)) for i in range(2)] for k in range(2)]
    files = [write(tmp_path / f"{k}.nc", features[k], Form(counts=bool(k))) for k in range(2)]
    with cfagg.aggregate(files, decode_times=False) as found:
        assert not found.cfagg.report.why(0, 1).joined
        assert features_of(found, "ta") == in_files(files[:1], "ta")
        assert features_of(found, "ta_1") == in_files(files[1:], "ta")


def outlines(path: Path, regions: dict[str, list[list[float]]], year: int, dim: str = "region") -> Path:
    """Write areas of several parts, each a list of longitudes, with a value for each area and year."""
    parts = [p for own in regions.values() for p in own]
    with netCDF4.Dataset(path, "w") as ds:
        sizes = {"time": 1, dim: len(regions), "part": len(parts), "node": sum(map(len, parts))}
        for name, size in sizes.items():
            ds.createDimension(name, size)
        nodes = [x for p in parts for x in p]
        made: dict[str, tuple[Any, tuple[str, ...], Any, dict[str, Any]]] = {
            "time": ("f8", ("time",), [365.0 * year], TIME),
            "name": (str, (dim,), list(regions), {"standard_name": "region"}),
            "count": ("i4", (dim,), [sum(map(len, own)) for own in regions.values()], {}),
            "size": ("i4", ("part",), list(map(len, parts)), {}),
            "ring": ("i4", ("part",), [k % 2 for k in range(len(parts))], {}),
            "x": ("f8", ("node",), nodes, LONGITUDE | {"axis": "X"}),
            "y": ("f8", ("node",), np.array(nodes) / 10, LATITUDE | {"axis": "Y"}),
            "outline": ("i4", (), 0, {
                "geometry_type": "polygon", "node_count": "count", "part_node_count": "size", "interior_ring": "ring",
                "node_coordinates": "x y"}),
            "pr": ("f8", ("time", dim), [[100.0 * year + len(n) + sum(nodes[:1]) for n in regions]], {
                "standard_name": "precipitation_flux", "units": "kg m-2 s-1", "coordinates": "name",
                "geometry": "outline"}),
        }  # fmt: skip
        for name, (dtype, dims, values, said) in made.items():
            one = ds.createVariable(name, dtype, dims)
            one.setncatts(said)
            one[...] = np.array(values, object) if dtype is str else values
    return path


def areas_of(ds: xr.Dataset, name: str = "pr") -> dict[tuple[str, float], Any]:
    """Return for each area and time its value, and its parts with their nodes."""
    data = ds[name]
    container = ds[data.attrs.get("geometry") or data.encoding["geometry"]].attrs
    x, y = (ds[n].values.tolist() for n in container["node_coordinates"].split())
    count, size, ring = (ds[container[n]].values for n in ("node_count", "part_node_count", "interior_ring"))
    label = next(
        v for v in ds.variables.values() if v.attrs.get("standard_name") == "region" and v.dims[0] in data.dims
    )
    time = next(d for d in data.dims if d != label.dims[0])
    ends, stops = np.cumsum(count), np.cumsum(size)
    out = {}
    for k, area in enumerate(label.values.tolist()):
        inside = [p for p in range(len(size)) if ends[k] - count[k] < stops[p] <= ends[k]]
        parts = [(int(ring[p]), *zip(*(c[stops[p] - size[p] : stops[p]] for c in (x, y)), strict=True)) for p in inside]
        assert sum(len(p) - 1 for p in parts) == count[k]
        for t, day in enumerate(ds[time].values.tolist()):
            out[area, day] = float(data.transpose(time, label.dims[0]).values[t, k]), tuple(parts)
    return out


AREAS: list[dict[str, list[list[float]]]] = [
    {"Ob": [[0, 1, 2], [0.5, 0.6, 0.7]], "Don": [[10, 11, 12, 13]]},
    {"Rhône": [[20, 21, 22], [25, 26, 27], [28, 29, 30, 31]]},
]


def test_geometries_of_several_files_and_years_are_one_array_with_the_nodes_of_each(tmp_path: Path) -> None:
    files = [outlines(tmp_path / f"{k}-{y}.nc", a, y, "ab"[k]) for k, a in enumerate(AREAS) for y in range(3)]
    expected: dict[Any, Any] = {}
    for path in files:
        with xr.open_dataset(path, decode_times=False) as ds:
            expected |= areas_of(ds)
    assert len(expected) == 9
    with cfagg.aggregate(files[::-1], output=tmp_path / "out.nc", decode_times=False) as made:
        for found in (made, cfagg.read(tmp_path / "out.nc", decode_times=False)):
            assert found["pr"].size == 9
            assert areas_of(found) == expected


def test_names_of_what_geometries_are_made_of_do_not_count(tmp_path: Path) -> None:
    files = [outlines(tmp_path / f"{year}.nc", AREAS[0], year) for year in range(2)]
    expected: dict[Any, Any] = {}
    for path, end in zip(files, ("", "_b"), strict=True):
        with netCDF4.Dataset(path, "a") as ds:
            ds.createVariable("lon", "f8", ("region",))[:] = [1, 11]
            ds["lon"].setncatts(LONGITUDE | {"nodes": f"x{end}"})
            ds["pr"].coordinates = "name lon"
            for name in ("x", "y", "count", "size", "ring") if end else ():
                ds.renameVariable(name, name + end)
            ds["outline"].setncatts({
                "part_node_count": f"size{end}", "interior_ring": f"ring{end}", "node_count": f"count{end}",
                "node_coordinates": f"x{end} y{end}",
            })  # fmt: skip
        with xr.open_dataset(path, decode_times=False) as ds:
            expected |= areas_of(ds)
    with cfagg.aggregate(files, decode_times=False) as found:
        assert found["pr"].size == 4
        assert areas_of(found) == expected


def test_geometries_are_joined_in_time_alone_where_areas_cannot_follow_each_other(tmp_path: Path) -> None:
    files = [outlines(tmp_path / f"{k}-{y}.nc", a, y) for k, a in enumerate(AREAS) for y in range(2)]
    for path in files[:2]:
        with netCDF4.Dataset(path, "a") as ds:
            ds["count"][0] = 5
    with cfagg.aggregate(files, decode_times=False) as found:
        assert sorted(found[n].shape for n in found.data_vars if str(n).startswith("pr")) == [(2, 1), (2, 2)]
        assert "do not add up to 10" in str(found.cfagg.report.why(0, 2).answers[0])


def test_areas_that_have_outlines_of_each_other_in_another_year_stay_apart(tmp_path: Path) -> None:
    parts = [[[0.0, 1.0, 2.0]], [[5.0, 6.0, 7.0]]]
    files = [
        outlines(tmp_path / f"{y}.nc", dict(zip(own, parts, strict=True)), y) for y, own in enumerate(("ab", "ba"))
    ]
    with cfagg.aggregate(files, decode_times=False) as found:
        for path, name in zip(files, ("pr", "pr_1"), strict=True):
            with xr.open_dataset(path, decode_times=False) as ds:
                assert areas_of(found, name) == areas_of(ds)


def test_areas_whose_nodes_have_not_the_dimension_of_each_other_stay_apart(tmp_path: Path) -> None:
    files = [outlines(tmp_path / f"{n}.nc", {str(n): [[n, n + 1, n + 2]]}, 0) for n in (0, 5)]
    for path in files:
        with netCDF4.Dataset(path, "a") as ds:
            ds.renameVariable("y", "old")
            ds.createDimension("other", 3)
            ds.createVariable("y", "f8", ("other",))[:] = 0
            ds["y"].setncatts(LATITUDE | {"axis": "Y"})
    with cfagg.aggregate(files, decode_times=False) as found:
        for path, name in zip(files, ("pr", "pr_1"), strict=True):
            with xr.open_dataset(path, decode_times=False) as ds:
                npt.assert_array_equal(found[name], ds["pr"])


def test_areas_that_are_in_other_files_too_stay_apart(tmp_path: Path) -> None:
    files = [outlines(tmp_path / f"{k}.nc", a, 0) for k, a in enumerate((AREAS[0], AREAS[1] | {"Ob": [[0, 1, 2]]}))]
    for choice in ("apart", "first"):
        with cfagg.aggregate(files, on_overlap=choice, decode_times=False) as found:
            for k, name in enumerate(("pr", "pr_1")):
                with xr.open_dataset(files[k], decode_times=False) as ds:
                    assert areas_of(found, name) == areas_of(ds)


def test_the_report_tells_along_which_features_samples_were_joined(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{k}.nc", [Feature(f"{k}", 1.0, ((k, 0.0, k),) * (k + 1))]) for k in range(3)]
    text = str(cfagg.aggregate(files).cfagg.report)
    assert "3 joined along timeseries_id" in text
    assert "samples within timeseries_id: 6" in text


def test_longitudes_beside_features_follow_these(tmp_path: Path) -> None:
    """What stands along features has the order of these, whatever type of name they have."""
    files = [write(tmp_path / f"{k}.nc", [Feature(n, float(n), ((k, 0.0, n),)) for n in own])
             for k, own in enumerate(([5, 1], [3], [4, 2]))]  # fmt: skip
    with cfagg.aggregate(files, decode_times=False) as found:
        npt.assert_array_equal(found["name"], [5, 1, 3, 4, 2])
        npt.assert_array_equal(found["lat"], found["name"])
        npt.assert_array_equal(found["ta"], found["name"])


@pytest.mark.parametrize("counts", [True, False])
def test_what_is_known_of_features_has_the_dimension_of_the_features_of_samples(tmp_path: Path, counts: bool) -> None:
    for k, name in enumerate("ab"):
        path = write(tmp_path / f"{name}.nc", [Feature(k, 50.0, ((0.0, 1.0, 2.0),) * (k + 1))], Form(counts=counts))
        with netCDF4.Dataset(path, "a") as ds:
            ds.createVariable("ground", "f4", ("station",)).setncatts(
                {"standard_name": "surface_altitude", "units": "m"}
            )
            ds["ground"][:] = [k]
    ds = cfagg.aggregate([tmp_path / "a.nc", tmp_path / "b.nc"])
    assert ds.ground.dims == ds.name.dims == ("station",)
    assert ds.index.attrs["instance_dimension"] == "station" if not counts else ds.rows.dims == ("station",)
    assert "name_1" not in ds.variables
