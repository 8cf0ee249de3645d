"""Sentences of the documentation that no other test holds the code to."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.accumulation.accumulated import Accumulated
from cfagg.checking import engine, single
from cfagg.checking.registry import about
from cfagg.cli import main as cli
from cfagg.conventions import nca, nca_write
from cfagg.storage import counters
from tests import nca_files
from tests.conversion.conftest import LAT, LON, write_aggregation, write_fragment
from tests.observations.small_stores import hourly

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def accumulated(tmp_path: Path) -> Accumulated:
    """Return the accumulation of 400 steps in chunks of 10."""
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    values = np.random.default_rng(1).normal(280, 10, (400, 2, 3)).astype("f4")
    group.create_array("tas", data=values, chunks=(10, 2, 3), dimension_names=("time", "lat", "lon"))
    cfagg.accumulate(tmp_path / "a.zarr", "tas", dims=["time"])
    return cfagg.open_accumulated(tmp_path / "a.zarr", "tas")


def test_the_samples_read_for_a_mean_do_not_depend_on_the_length_of_the_range(accumulated: Accumulated) -> None:
    read = [accumulated.mean("time", isel={"time": slice(10, end)}, explain=True) for end in (100, 200, 390)]
    assert {(e.elements, e.chunks) for e in read} == {(read[0].elements, read[0].chunks)}
    assert read[-1].elements < read[-1].instead.elements / 10


def test_an_edge_is_at_most_half_a_chunk_long(accumulated: Accumulated) -> None:
    explained = [accumulated.sum("time", isel={"time": slice(a, 300)}, explain=True) for a in range(100, 111)]
    cells = [sum(s.elements for s in e.steps if s.role == "cells") for e in explained]
    assert cells == [6 * min(n, 10 - n) for n in range(11)]


def test_a_relative_reference_never_starts_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("temperature.nca", "test2.nc"):
        shutil.copy(cfagg.demo.sample(name), tmp_path)
    # The first partition is missing beside the aggregation, but is in the working directory.
    monkeypatch.chdir(cfagg.demo.sample())
    with pytest.raises(cfagg.CfaggError, match=r"test1\.nc"):
        cfagg.read(tmp_path / "temperature.nca")["tas"].load()


def test_explaining_an_answer_reads_no_values(accumulated: Accumulated, tmp_path: Path) -> None:
    trusting = cfagg.open_accumulated(tmp_path / "a.zarr", "tas", trust_for=1000)
    trusting.mean("time")
    for folder in ("tas", "tas_accumulation_group/acc_time"):
        for chunk in (tmp_path / "a.zarr" / folder).rglob("[c0-9]*"):
            if chunk.is_file():
                chunk.write_bytes(b"no chunk")
    explained = trusting.mean("time", isel={"time": slice(11, 306)}, explain=True)
    assert {s.role for s in explained.steps} >= {"sums", "cells"}
    with pytest.raises(cfagg.CfaggError):
        trusting.mean("time", isel={"time": slice(11, 306)})


def test_a_comparison_is_trusted_no_longer_than_was_asked_for(accumulated: Accumulated, tmp_path: Path) -> None:
    trusting, short = (cfagg.open_accumulated(tmp_path / "a.zarr", "tas", trust_for=t) for t in (1000, 1e-9))
    for found in (trusting, short):
        found.mean("time")
    zarr.open_group(tmp_path / "a.zarr")["tas"].attrs["valid_min"] = 0.0
    trusting.mean("time")
    with pytest.raises(cfagg.errors.StaleError, match="valid"):
        short.mean("time")


def test_the_last_sample_is_at_the_end_though_chunk_and_stride_are_not_full(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    values = np.arange(43.0)
    group.create_array("tas", data=values, chunks=(10,), dimension_names=("time",))
    cfagg.accumulate(tmp_path / "a.zarr", "tas", stride=2)
    sums = group["tas_accumulation_group/acc_time"][:]
    assert sums.tolist() == [values[:end].sum() for end in (20, 40, 43)]


def test_a_selection_opens_the_file_of_each_partition_that_it_touches_once_and_no_other(tmp_path: Path) -> None:
    shutil.copytree(cfagg.demo.sample("sst"), tmp_path / "sst")
    shutil.copy(cfagg.demo.sample("sst.nca"), tmp_path)
    files = sorted((tmp_path / "sst").iterdir())
    for file in files[:3] + files[8:]:
        file.unlink()
    sst = cfagg.read(tmp_path / "sst.nca", chunks={})["surface_temperature"]
    assert sst.data.npartitions == len(files) == 54
    before = counters.snapshot()
    sst.isel(time=slice(3, 8)).compute()
    assert (counters.snapshot() - before).files == 5


def test_the_html_of_a_file_has_no_script_and_loads_nothing() -> None:
    page = cfagg.show(cfagg.demo.sample("temperature.nca"))._repr_html_()
    assert "<svg" in page
    assert not re.search(r"<script|<link|<img|<iframe|\bsrc=|\burl\(|@import|\bon\w+=", page)
    # The only address is the name of SVG's namespace.
    assert set(re.findall(r"\w+://[^\"'\s<)]+", page)) <= {"http://www.w3.org/2000/svg"}


def test_a_quiet_check_prints_nothing_and_tells_by_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(cfagg.demo.sample("storms.nc")), "-q"]) == 0
    assert cli.main(["check", str(cfagg.demo.sample("test1.nc")), "-q", "--strict"]) == 1
    assert capsys.readouterr() == ("", "")


#: What the documentation may teach to import: what stays, and the algorithm of the page about projection.
TAUGHT = re.compile(
    r"cfagg(\.(demo|errors|findings|model(\.(dataset|chunks))?|kernels(\.\w+)?|conventions(\.\w+)?"
    r"|observations\.(exchange|sources|filters|indexes)|arrays\.plan))?"
)


@pytest.mark.parametrize("page", sorted(p.name for p in DOCS.glob("*.md")))
def test_the_documentation_imports_public_modules_only(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    imported = re.findall(r"^(?:>>> )?(?:from (cfagg[\w.]*) import|import (cfagg[\w.]*))", text, re.MULTILINE)
    assert [a or b for a, b in imported if not TAUGHT.fullmatch(a or b)] == []


@pytest.mark.parametrize("stride", [1, 2])
def test_sums_over_time_and_their_counts_take_two_parts_in_as_many_steps_as_lie_between_samples(
    accumulated: Accumulated, tmp_path: Path, stride: int
) -> None:
    report = cfagg.accumulate(tmp_path / "a.zarr", "tas", dims=["time"], stride=stride, overwrite=True, dry_run=True)
    sizes = {a.name: a.bytes for a in report.arrays}
    assert sizes["acc_time"] == sizes["acc_wt_time"] == report.source_bytes * 2 / (10 * stride)


def test_means_of_complete_data_read_neither_counts_nor_weights(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    group.create_array("tas", data=np.ones((40, 4), "f4"), chunks=(10, 4), dimension_names=("time", "lat"))
    lat = group.create_array("lat", data=np.arange(4.0), dimension_names=("lat",))
    lat.attrs.update({"standard_name": "latitude", "units": "degrees_north"})
    for weights in (None, "area"):
        cfagg.accumulate(tmp_path / "a.zarr", "tas", dims=["time", "lat"], weights=weights, overwrite=True)
        found = cfagg.open_accumulated(tmp_path / "a.zarr", "tas")
        for dim in ("time", "lat"):
            assert {s.role for s in found.mean(dim, explain=True).steps} == {"sums"}


def test_about_95_per_cent_of_the_values_of_a_chunk_are_larger_than_the_small_one_that_is_recorded(
    tmp_path: Path,
) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    values = np.random.default_rng(3).lognormal(0, 2, (3, 5000)) * [[10], [1], [100]]
    group.create_array("pr", data=values, chunks=(1, 5000), dimension_names=("time", "x"))
    cfagg.accumulate(tmp_path / "a.zarr", "pr", dims=["time"])
    small = group["pr_accumulation_group"].attrs["cfagg"]["magnitudes"]["small"]
    assert 0.9 < (values[1] > small).mean() < 0.99


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_of_a_zarr_v2_store_without_consolidated_metadata_only_its_tree_cannot_be_opened(tmp_path: Path) -> None:
    store = tmp_path / "a.zarr"
    array = zarr.open_group(store, mode="w", zarr_format=2).create_array("tas", data=np.ones((40, 3)), chunks=(10, 3))
    array.attrs["_ARRAY_DIMENSIONS"] = ["time", "lat"]
    cfagg.accumulate(store, "tas", dims=["time"])
    assert xr.open_zarr(store, consolidated=False)["tas"].sum() == 120
    assert xr.open_dataset(store, engine="zarr", consolidated=False)["tas"].sum() == 120
    with pytest.raises(ValueError, match="not aligned with its parents"):
        xr.open_datatree(store, engine="zarr", consolidated=False)
    zarr.consolidate_metadata(store, zarr_format=2)
    with pytest.raises(ValueError, match="not aligned with its parents"):
        xr.open_datatree(store, engine="zarr")


def _members(page: str, command: str) -> set[str]:
    """Return the names in backticks in the row of a table of the members of JSON."""
    (row,) = re.findall(rf"^\| `{command}` \|(.*)\|$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    return set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", row)))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cfagg accumulate", ["accumulate", "STORE", "tas", "--refresh"]),
        ("cfagg mean", ["mean", "STORE", "tas"]),
        ("cfagg mean --explain", ["mean", "STORE", "tas", "--explain"]),
    ],
)
def test_the_members_of_json_are_those_of_the_page(
    accumulated: Accumulated, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, words: list[str]
) -> None:
    assert cli.main([str(tmp_path / "a.zarr") if w == "STORE" else w for w in words] + ["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    named = _members("accumulation.md", command)
    if plan := found.get("plan"):
        total = {"chunks", "elements", "bytes"}
        inner = {"steps", "without_accumulation", "proven", *total}
        assert inner <= set(plan)
        assert set(plan["steps"][0]) == {"array", "role", "terms", *total}
        assert set(plan["without_accumulation"]) == total
        named -= inner
    assert set(found) == named | {"form", "form_version", "store", "variable"}


def test_the_longest_prefix_decides_which_rules_are_run() -> None:
    path = cfagg.demo.sample("packed_short.nc")
    found = {f.code for f in cfagg.check(path).findings}
    assert {"CEL006", "COO012", "DAT009"} <= found
    assert {f.code for f in cfagg.check(path, select=["CEL", "COO"], ignore="COO012").findings} == {"CEL006"}
    assert {f.code for f in cfagg.check(path, select=["C", "COO012"], ignore=["COO", "CEL"]).findings} == {"COO012"}
    assert {f.code for f in cfagg.check(path, select=["COO", "CEL"], ignore=["C", "COO012"]).findings} == {"CEL006"}


def test_only_the_modules_for_urls_can_make_a_connection() -> None:
    root = Path(cfagg.__file__).parent
    libraries = "socket|http|urllib.request|urllib3|requests|aiohttp|fsspec|obstore|s3fs|boto3"
    making = re.compile(rf"^\s*(?:import|from) (?:{libraries})\b", re.MULTILINE)
    found = {p.relative_to(root).as_posix() for p in root.rglob("*.py") if making.search(p.read_text(encoding="utf-8"))}
    assert found == {"storage/connections.py", "storage/objects.py"}


def test_an_array_keeps_its_whole_dimension_where_chunks_say_minus_one_or_nothing(tmp_path: Path) -> None:
    cfagg.convert(cfagg.demo.sample("test1.nc"), tmp_path / "a.zarr", chunks={"time": np.int64(5), "lat": -1})
    assert zarr.open_array(tmp_path / "a.zarr/tas", mode="r").chunks == (5, 64, 128)


def test_counts_of_samples_are_those_before_area_and_thinning(tmp_path: Path) -> None:
    path, _ = hourly(tmp_path / "a.zarr")
    ds = cfagg.open_observations(path, "2020-01-01", "2020-01-03", "(-3,+3]", "6h")
    part = ds.subset(area=(90, 0, 0, 180), thin=2)
    assert part.counts.tolist() == ds.counts.tolist()
    assert sum(map(len, part)) < ds.counts.sum() / 3


def test_partitioned_dimensions_are_written_in_the_order_of_the_array() -> None:
    partitions = [
        {"index": [j, i], "location": [[i, i + 1], [j, j + 1]], "data": {"shape": [1, 1], "file": "a.nc", "ncvar": "v"}}
        for j in range(2)
        for i in range(2)
    ]
    directions = {"lat": True, "time": True}
    text = json.dumps(
        {"directions": directions, "pdimensions": ["lat", "time"], "pshape": [2, 2], "Partitions": partitions}
    )
    found = nca.parse("v", {"nca_dimensions": "time lat", "nca_array": text}, "f4", {"time": 2, "lat": 2})
    written = json.loads(nca_write.write(found)["nca_array"])
    assert (written["pdimensions"], list(written["directions"])) == (["time", "lat"], ["time", "lat"])


def test_objects_in_the_core_of_a_range_are_neither_read_nor_hashed_for_an_answer(
    accumulated: Accumulated, tmp_path: Path
) -> None:
    trusting = cfagg.open_accumulated(tmp_path / "a.zarr", "tas", trust_for=1000)
    whole = {"time": slice(20, 380)}
    before = trusting.mean("time", isel=whole)
    for chunk in range(2, 38):
        (tmp_path / f"a.zarr/tas/c/{chunk}/0/0").write_bytes(b"no chunk")
    assert trusting.mean("time", isel=whole).equals(before)
    with pytest.raises(cfagg.errors.StaleError):
        accumulated.mean("time", isel=whole)


def test_the_number_of_rows_in_each_sample_is_known_without_reading_them(tmp_path: Path) -> None:
    path, _ = hourly(tmp_path / "a.zarr")
    expected = cfagg.open_observations(path, "2020-01-01", "2020-01-03", "(-3,+3]", "6h").counts.tolist()
    for chunk in (path / "data").iterdir():
        if not chunk.name.startswith("."):
            chunk.write_bytes(b"no chunk")
    assert cfagg.open_observations(path, "2020-01-01", "2020-01-03", "(-3,+3]", "6h").counts.tolist() == expected


def _aggregated(folder: Path, dtype: str, values: list[float], **attributes: object) -> Path:
    """Write an aggregation of two files, the second of which has these values, and return its path."""
    for number, content in enumerate(([0, 0, 0], values)):
        dims = ("time",)
        nca_files.fragment(folder / f"{number}.nc", "v", np.array(content, "f8"), dims, attributes if number else {})
    array = nca_files.array(
        ("time",),
        [[0, 3, 6]],
        lambda index, _: {"data": {"file": f"{index[0]}.nc", "ncvar": "v", "shape": [3]}},
    )
    return nca_files.aggregation(folder / "a.nca", "v", dtype, {"time": 6}, array, {"units": "K"})


@pytest.mark.parametrize(
    ("dtype", "values", "attributes", "wrong"),
    [
        ("i2", [1, 40000, 2], {}, "40000"),
        ("i2", [1, 2, 2.5], {}, r"2\.5"),
        ("f4", [1, 2, 1e60], {}, r"1e\+60"),
        ("f8", [1, 2, 3], {"units": "kg"}, "kg"),
    ],
)
def test_what_cannot_be_conformed_is_named_with_file_variable_partition_and_value(
    tmp_path: Path, dtype: str, values: list[float], attributes: dict[str, str], wrong: str
) -> None:
    path = _aggregated(tmp_path, dtype, values, **attributes)
    with pytest.raises(cfagg.errors.CfaggError) as caught:
        cfagg.read(path)["v"].load()
    said = str(caught.value)
    assert re.search(
        rf"a\.nca, variable 'v', partition \(1,\), fragment 'v' of .*1\.nc: .*{wrong}.*; (give|correct) ", said
    )


def test_a_rectilinear_store_is_read_by_cfagg(tmp_path: Path) -> None:
    nca_files.fragment(tmp_path / "0.nc", "v", np.zeros(3), ("time",), {})
    nca_files.fragment(tmp_path / "2.nc", "v", np.arange(4.0), ("time",), {})
    array = nca_files.array(
        ("time",),
        [[0, 3, 7]],
        lambda index, _: {"data": {"file": f"{2 * index[0]}.nc", "ncvar": "v", "shape": [3 + index[0]]}},
    )
    path = nca_files.aggregation(tmp_path / "b.nca", "v", "f8", {"time": 7}, array, {"units": "K"})
    assert "rectilinear" in str(cfagg.convert(path, tmp_path / "b.zarr", chunks="partitions").notes)
    assert cfagg.read(tmp_path / "b.zarr")["v"].values.tolist() == [0, 0, 0, 0, 1, 2, 3]
    with pytest.raises(ValueError, match="rectilinear_chunks"):
        zarr.open_array(tmp_path / "b.zarr/v", mode="r")


@pytest.mark.parametrize(("attributes", "expected"), [({"missing_value": np.float32(-999)}, -999), ({}, np.nan)])
def test_decoded_missing_values_are_nan_unless_the_aggregation_has_a_fill_value(
    tmp_path: Path, attributes: dict[str, object], expected: float
) -> None:
    stored = np.arange(72, dtype="i2").reshape(3, LAT, LON)
    stored[1, 2, 3] = -9
    packing = {"scale_factor": 0.5, "add_offset": 1.0}
    write_fragment(tmp_path / "part0.nc", stored, dtype="i2", fill=-9, attributes=packing)
    cfagg.convert(
        write_aggregation(tmp_path / "a.nca", [3], attributes=attributes), tmp_path / "a.zarr", packing="decode"
    )
    array = zarr.open_array(tmp_path / "a.zarr/tas", mode="r")
    np.testing.assert_equal(array[1, 2, 3:5].tolist(), [expected, 1 + 0.5 * stored[1, 2, 4]])
    assert "scale_factor" not in array.attrs


def test_first_versions_on_the_page_are_those_of_the_rules() -> None:
    text = (DOCS / "checking.md").read_text(encoding="utf-8").partition("## The first version of a rule")[2]
    rows = re.findall(r"^\| `([A-Z]{3}\d{3})` \| (\d\.\d+)", text, re.MULTILINE)
    assert len(rows) == 11
    assert {code: str(about()[code].since).removeprefix("CF-") for code, _ in rows} == dict(rows)


def test_what_the_page_about_the_architecture_names_is_in_the_tree() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    root = DOCS.parent
    files = set(re.findall(r"`([\w/]+(?:\.py|/))`", text))
    assert len(files) > 30
    places = [root, root / "cfagg"]
    trees = {p.name for place in ("cfagg", "kernels", "conventions", "tests") for p in (root / place).rglob("*.py")}
    assert [f for f in files if not any((place / f).exists() for place in places) and f not in trees] == []
    source = "\n".join(p.read_text(encoding="utf-8") for p in (root / "cfagg").rglob("*.py"))
    names = {*re.findall(r"`([A-Z]\w*[a-z]\w*)`", text), *re.findall(r"`(open_\w+|locate\w*)`", text)}
    own = names - {"DeprecationWarning", "Toy"}
    assert [name for name in sorted(own) if not re.search(rf"(class|def|type) {name}\b", source)] == []


def test_every_dependency_has_its_reason_on_the_page_about_the_architecture() -> None:
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = ("cloud", "dask", "icechunk", "observations", "plot")
    wanted = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    page = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## Dependencies")[2]
    reasons = page.partition("\n## ")[0].lower()
    missing = [one for one in wanted if re.match(r"[\w-]+", one)[0].lower() not in reasons]
    assert missing == []


def test_a_misspelt_option_of_aggregate_is_answered_with_the_nearest() -> None:
    with pytest.raises(cfagg.CfaggError, match="'relaxed_unit'; did you mean relaxed_units"):
        cfagg.aggregate(cfagg.demo.sample("sst"), relaxed_unit=True)


def test_findings_of_a_rule_beyond_those_that_are_listed_are_counted_up_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (engine.KEPT, engine.COUNTED) == (1000, 100_000)
    # The number that is kept is the default of functions, which may have been imported before.
    for function in (single.check_one, single.check_or_report):
        monkeypatch.setitem(function.__kwdefaults__, "most", 2)
    monkeypatch.setattr(engine, "COUNTED", 5)
    variables = "".join(f'float v{i} ; v{i}:units = "nonsense" ; ' for i in range(9))
    (tmp_path / "a.cdl").write_text(f'netcdf a {{ variables: {variables} :Conventions = "CF-1.8" ; }}')
    (found,) = cfagg.check(tmp_path / "a.cdl", select="UNI002").sources
    assert [f.code for f in found.findings] == ["UNI002", "UNI002", "INT004"]
    assert dict(found.dropped) == {"UNI002": 3}


@pytest.mark.parametrize(
    ("limit", "said"), [("799", "800 bytes"), ("800", ""), ("1 GB", "'1 GB' is not a number of bytes")]
)
def test_the_environment_limits_chunks_from_the_start(tmp_path: Path, limit: str, said: str) -> None:
    xr.Dataset({"v": ("x", np.arange(1000.0))}).to_netcdf(
        tmp_path / "a.nc", encoding={"v": {"chunksizes": (100,), "zlib": True}}
    )
    done = subprocess.run(
        [sys.executable, "-m", "cfagg", "convert", str(tmp_path / "a.nc"), str(tmp_path / "a.zarr")],
        env=os.environ | {"CFAGG_MAX_CHUNK": limit}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, said in done.stderr) == (2 if said else 0, True)
    assert "bug" not in done.stderr


def test_texts_with_null_characters_are_losses_of_netcdf_or_stop_it(tmp_path: Path) -> None:
    xr.Dataset({"v": ("x", ["a"])}, attrs={"note": "a\0b"}).to_zarr(tmp_path / "a.zarr", consolidated=False)
    xr.Dataset({"v": ("x", np.array(["a\0b", "c"], object))}).to_zarr(tmp_path / "b.zarr", consolidated=False)
    report = cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc", on_loss="drop")
    assert [loss.what for loss in report.losses] == ["attribute 'note'"]
    with pytest.raises(cfagg.errors.UnsupportedError, match="null character"):
        cfagg.convert(tmp_path / "b.zarr", tmp_path / "b.nc", on_loss="drop")
    assert not (tmp_path / "b.nc").exists()
