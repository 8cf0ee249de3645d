"""Everything that a public function gives out: an HTML form for notebooks, safe and whole, and a short text form."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.accumulation.report import Report as Accumulation
from cfagg.checking.report import SourceReport
from cfagg.conversion import Report as Conversion
from cfagg.demo import sample
from cfagg.model import Grid, Layout, Partitions
from cfagg.observations.fields import Fields
from cfagg.observations.findings import CheckReport, finding_of
from tests.display.test_html import ELEMENTS, EVIL, Elements

#: A repr has at most so many lines, of at most so many characters in all.
LINES, LENGTH = 10, 800

#: What is reached through public attributes, is no result of its own, and shows itself by its repr.
INNER = {
    "ArrayReport", "BTreeIndex", "BisectIndex", "Columns", "Explanations", "Group", "GroupFacts", "JoinedFacts",
    "Labels", "Loss", "ObservationStore", "Outer", "PagesIndex", "Plan", "SampleDates", "Source",
    "Step", "Window", "ZarrArray", "ZarrReader",
}  # fmt: skip


def grid(folder: Path) -> str:
    """Write a small store with what dates, weights and places need; return its path."""
    path = folder / "small.zarr"
    root = zarr.open_group(str(path), mode="w")
    root.create_array(
        "tas", data=np.arange(80, dtype="f4").reshape(20, 4), chunks=(5, 4), dimension_names=("time", "x")
    )
    time = root.create_array("time", data=np.arange(20.0), chunks=(20,), dimension_names=("time",))
    time.attrs["units"] = "days since 2000-01-25"
    return str(path)


def appended() -> xr.Dataset:
    """Return steps that go on with the small store."""
    time = ("time", np.arange(20.0, 22), {"units": "days since 2000-01-25"})
    return xr.Dataset({"tas": (("time", "x"), np.ones((2, 4), "f4"))}, {"time": time})


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Call every public function, and what their results offer; return what they give."""
    folder = tmp_path_factory.mktemp("results")
    made: dict[str, Any] = {}
    store = grid(folder)
    recipe = {
        "dates": {"start": 2004, "end": 2005, "frequency": "1d"},
        "input": {"netcdf": {"path": str(sample("storms.nc"))}},
        "output": {"layout": "tabular"},
    }
    made["convert"] = cfagg.convert(sample("figure1.nca"), folder / "figure1.zarr")
    made["write"] = cfagg.write(cfagg.read(sample("sst.nca")), folder / "sst.nc")
    made["index"] = cfagg.index(sample("sst.nca"), output=folder / "sst.cfagg-index")
    made["rebase"] = cfagg.rebase(folder / "sst.nc", Path(sample("sst.nca")).parent, "/archive")
    made["accumulate"] = cfagg.accumulate(store, "tas")
    made["create_observations"] = cfagg.create_observations(recipe, folder / "storms.zarr")
    made["open_aggregation"] = opened = cfagg.open_aggregation(sample("sst.nca"), "surface_temperature")
    made["Aggregation"], made["Grid"], made["Partitions"] = opened, opened.grid, opened.partitions
    made["Layout"] = opened.partitions.layouts[0]
    made["open_array"] = lazy = cfagg.open_array(store, "tas")
    made["concatenate"] = cfagg.concatenate([lazy, lazy])
    made["append"] = cfagg.append(grid(folder / "growing"), appended(), "time")
    rows = np.arange(5.0), np.array([0, 2, 1, 0, 2]), np.array([0, 2, 2, 5])
    made["write_rows"] = cfagg.write_rows(rows, folder / "rows.zarr", columns=3)
    made["open_rows"] = cfagg.open_rows(folder / "rows.zarr")
    made["show"] = cfagg.show(sample("sst.nca"), rows=1)
    made["check"] = checked = cfagg.check(sample("sst.nca"))
    made["check, one source"], made["check, one finding"] = checked[0], checked.findings[0]
    made["open_accumulated"] = sums = cfagg.open_accumulated(store, "tas")
    made["groupby"] = sums.groupby("time.month")
    made["explanation"] = sums.mean("time", explain=True)
    read = cfagg.read(store)["tas"]
    made["read"] = cfagg.read(sample("sst.nca"))
    made["aggregate"] = several = cfagg.aggregate(sorted(Path(sample("sst")).glob("*.nc")))
    made["report"], made["why"] = several.cfagg.report, several.cfagg.report.why(0, 1)
    made["accessor"], made["accessor, groups"] = read.cfagg, read.cfagg.groupby("time.month")
    made["accessor, explanation"] = read.cfagg.mean("time", explain=True)
    made["accessor, no accumulation"] = cfagg.read(sample("sst.nca"))["surface_temperature"].cfagg.mean(explain=True)
    made["aggregate"] = cfagg.aggregate([sample("test1.nc")])
    made["aggregate, report"] = made["aggregate"].cfagg.report
    made["open_observations"] = ds = cfagg.open_observations(folder / "storms.zarr", 2005, 2005, "(-3,+3]", "6h")
    made["sample"], made["several samples"], made["part of a sample"] = ds[958], ds[950:960], ds[958] + 1
    made["details"], made["header"], made["subset"] = ds.details(958), ds[958].header, ds.subset(select=["wind"])
    made["join_observations"] = joined = cfagg.join_observations({"a": ds, "b": ds})
    made["joined sample"] = joined[958]
    times = np.array(["2020-01-01", "2020-01-02"], "datetime64[ns]")
    cells = xr.Dataset({"t": (("time", "lat"), [[1.0, 2.0], [3.0, 4.0]])}, {"time": times, "lat": [1.0, 2.0]})
    made["fields"] = Fields(cells.assign_coords(lon=5.0))
    made["details of fields"] = made["fields"].details(0)
    from cfagg.observations.checking import check_store

    made["obs check"] = check_store(folder / "storms.zarr")
    return made


def reached(results: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield results, and of each class what stands in its public attributes."""
    seen: set[type] = set()
    for name, result in results.items():
        yield name, result
        if type(result) in seen:
            continue
        seen.add(type(result))
        for attribute in (a for a in dir(result) if not a.startswith("_")):
            try:
                value = getattr(result, attribute)
            except cfagg.CfaggError:
                continue
            if isinstance(value, tuple | list) and value:
                value = value[0]
            if type(value).__module__.startswith("cfagg"):
                yield f"{name}.{attribute}", value


def test_every_public_name_is_tried(results):
    others = {"__version__", "CfaggError"}
    assert set(cfagg.__all__) - others - set(results) == set()


def test_every_result_has_an_html_form_that_is_whole(results):
    lacking = []
    for name, result in reached(results):
        if type(result).__name__ in INNER:
            continue
        form = getattr(result, "_repr_html_", lambda: None)()
        if form is None:
            lacking.append(f"{name}: {type(result).__name__}")
            continue
        if isinstance(result, xr.Dataset):  # drawn by xarray
            continue
        found = Elements(form)
        assert not found.open, name
        assert "<script" not in form, name
    assert lacking == []


def test_every_result_has_a_short_text_form_of_its_own(results):
    long = {}
    for name, result in reached(results):
        text = repr(result)
        if (
            name not in ("show", "read", "aggregate")
            and not isinstance(result, np.ndarray)
            and (text.count("\n") >= LINES or len(text) > LENGTH)
        ):
            long[name] = text[:80]
        assert " object at 0x" not in text, name
    assert long == {}


def hostile(text: Sequence[str]) -> Sequence[Any]:
    """Return results that carry a name from outside in every place that has one."""
    name = text[0]
    layout = Layout((name,), units=name)
    partitions = Partitions.build(1, file=0, address=0, files=[name], addresses=[name], layouts=[layout])
    cells = xr.Dataset({name: (("time", "x"), [[1.0]])}, {"time": np.array(["2020-01-01"], "M8[ns]")})
    finding = cfagg.check(xr.Dataset({"a": ((), 1.0, {"units": name, "standard_name": name})})).findings[0]
    from cfagg.accumulation.explain import Explanation, Step
    from cfagg.api.accessor import How
    from cfagg.observations.sample import Header

    step = Step(name, name, (name,), 1, 1, 1)
    return [
        partitions,
        layout,
        Grid([[0, 1]]),
        Fields(cells),
        Header((name,), {name: {"units": name}}),
        finding,
        SourceReport(name, "1.8", (finding,)),
        Explanation(name, name, (step,), step),
        How(accumulated=False, reason=name),
        Accumulation(name, name, name, name, (), 1, 1, 1, 1, notes=(name,)),
        CheckReport(name, 1, 1, True, (name,), (finding_of("OBS001", name, name),)),
    ]


@pytest.mark.parametrize("number", range(11))
def test_names_from_outside_are_escaped(number):
    form = hostile([EVIL])[number]._repr_html_()
    found = Elements(form)
    assert "<script" not in form
    assert found.names <= ELEMENTS | {"ul", "li", "p", "section", "header", "h2", "h3", "a", "b", "code", "footer"}
    assert not found.open


@pytest.mark.parametrize("number", range(11))
def test_characters_that_turn_or_forge_text_are_escaped(number):
    result = hostile(["a\x1b[31m\u202eb"])[number]
    for form in (result._repr_html_(), repr(result), str(result)):
        assert form.replace("\n", "").isprintable()


def test_names_of_arrays_are_escaped_in_their_short_forms(tmp_path):
    name, dims = "v\u202ev", ("x\x1b[31m", "y\u202e")
    zarr.open_group(tmp_path / "a.zarr", mode="w").create_array(name, data=np.ones((4, 3)), dimension_names=dims)
    report = cfagg.accumulate(tmp_path / "a.zarr", name, dims=[dims])
    acc = cfagg.open_accumulated(tmp_path / "a.zarr", name)
    own = cfagg.read(str(tmp_path / "a.zarr"))[name]
    groups = acc.groupby(xr.DataArray([0, 1, 0, 1], dims=dims[:1], name="\u202e"))
    for shown in (cfagg.open_array(str(tmp_path / "a.zarr"), name), report, acc, acc.group, groups, own.cfagg):
        assert repr(shown).isprintable()
    for shown in (report, acc.mean(dims, explain=True)):
        assert str(shown).replace("\n", "").isprintable()


def test_reports_of_many_arrays_and_notes_stay_short():
    report = Conversion(
        target="out.zarr", variables=tuple(f"v{i}" for i in range(1000)), bytes=1, stored=1, chunks=1,
        notes=tuple(map(str, range(1000))),
    )  # fmt: skip
    assert repr(report) == "<Report of out.zarr: 1,000 variables, 1 bytes in 1 chunk (1 bytes stored), 1,000 notes>"
