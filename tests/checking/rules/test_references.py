"""Fragments that are opened: single defects in files beside an aggregation, and what the access policy refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import cfagg
from cfagg.checking import fragments
from cfagg.checking.engine import Result, run
from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.formats.cdl.parsing import parse_cdl
from cfagg.runtime.progress import listening
from tests import nca_files
from tests.checking.writing import write_cdl
from tests.formats.pp.making import field
from tests.observations.servers import served

YEAR = """netcdf year {
dimensions:
  time = 4 ;
  lat = 2 ;
  f_time = 2 ;
  f_lat = 1 ;
  row = 2 ;
  column = 2 ;
variables:
  double time(time) ;
    time:units = "days since 2001-01-01" ;
  float tas ;
    tas:standard_name = "air_temperature" ;
    tas:units = "K" ;
    tas:_FillValue = -1.e20f ;
    tas:aggregated_dimensions = "time lat" ;
    tas:aggregated_data = "map: sizes uris: files identifiers: names" ;
  int sizes(row, column) ;
  string files(f_time, f_lat) ;
  string names ;
:Conventions = "CF-1.13" ;
data:
  time = 0, 1, 2, 3 ;
  sizes = 3, 1, 2, _ ;
  files = "a.nc", "b.nc" ;
  names = "tas" ;
}
"""

PART = """netcdf part {
dimensions:
  time = %d ;
  lat = 2 ;
variables:
  float tas(time, lat) ;
    tas:units = "degC" ;
    tas:_FillValue = -9.f ;
data:
  tas = %s ;
}
"""


LAT = """  double lat(lat) ;
    lat:units = "degrees_north" ;
  float tas ;"""


def part(n: int) -> str:
    return PART % (n, ", ".join(["0"] * 2 * n))


def year(folder: Path, first: str | None = None, second: str | None = None, text: str = YEAR) -> Path:
    folder.mkdir(exist_ok=True)
    write_cdl(part(3) if first is None else first, folder / "a.nc")
    write_cdl(part(1) if second is None else second, folder / "b.nc")
    return write_cdl(text, folder / "year.nc")


def check(path: Path, **options: object) -> Result:
    with open_dataset(str(path)) as dataset:
        return run(dataset, Options(references=True, select=("AGG", "REF"), **options))  # type: ignore[arg-type]


def found(path: Path, **options: object) -> list[tuple[str, str]]:
    return [(f.code, f.severity) for f in check(path, **options).findings if f.code != "REF001"]


def test_fragments_that_fit_are_clean(tmp_path: Path) -> None:
    assert found(year(tmp_path)) == []


def test_without_asking_no_fragment_is_opened(tmp_path: Path) -> None:
    path = write_cdl(YEAR, tmp_path / "year.nc")
    with open_dataset(str(path)) as dataset:
        result = run(dataset, Options(select=("REF",)))
    assert [f.code for f in result.findings] == ["REF001"]
    assert set(result.skipped) == {f"REF{n:03d}" for n in (*range(2, 11), 12)}


def test_datasets_are_listed(tmp_path: Path) -> None:
    (listed,) = [f for f in check(year(tmp_path)).findings if f.code == "REF001"]
    assert listed.variable == "tas"
    assert "2 fragments refer to 2 datasets: 'a.nc', 'b.nc'" in listed.message


@pytest.mark.parametrize(
    ("old", "new", "code", "severity"),
    [
        ("degC", "m", "REF007", "error"),
        ("degC", "no unit", "REF007", "warning"),
        ('    tas:units = "degC" ;\n', "", "REF007", "warning"),
        ("float tas(time, lat)", "float ts(time, lat)", "REF004", "error"),
        ("  lat = 2 ;", "  lat = 2 ;\n  lon = 3 ;", None, ""),
        ("tas(time, lat)", "tas(lat, time)", "REF006", "warning"),
        ("  time = 3 ;", "  time = 4 ;", "REF005", "error"),
    ],
)
def test_one_defect_of_a_fragment_is_one_finding(
    tmp_path: Path, old: str, new: str, code: str | None, severity: str
) -> None:
    text = part(3)
    assert old in text
    changed = text.replace(old, new)
    if "ts(" in new:
        changed = changed.replace("tas:", "ts:").replace("tas = ", "ts = ")
    assert found(year(tmp_path, changed)) == ([(code, severity)] if code else [])


def test_a_dimension_of_size_1_may_be_left_out(tmp_path: Path) -> None:
    assert found(year(tmp_path, second=part(1).replace("tas(time, lat)", "tas(lat)"))) == []


def test_more_dimensions_than_the_aggregation_are_an_error(tmp_path: Path) -> None:
    text = part(3).replace("  lat = 2 ;", "  lat = 2 ;\n  one = 1 ;").replace("tas(time, lat)", "tas(time, lat, one)")
    assert found(year(tmp_path, text)) == [("REF005", "error")]


def test_dimensions_of_equal_size_that_their_names_put_right_are_a_warning(tmp_path: Path) -> None:
    square = YEAR.replace("sizes = 3, 1, 2, _", "sizes = 2, 2, 2, _")
    path = year(tmp_path, part(2).replace("tas(time, lat)", "tas(lat, time)"), part(2), square)
    assert found(path) == [("REF006", "warning")]
    assert cfagg.read(path)["tas"].shape == (4, 2)


@pytest.mark.parametrize(("first", "second", "codes"), [("lat", "time", []), ("time", "lat", [("REF006", "error")])])
@pytest.mark.parametrize("names", [("t", "y"), ("time", "lat")])
def test_coordinates_tell_which_dimension_is_which(
    tmp_path: Path, names: tuple[str, str], first: str, second: str, codes: list[tuple[str, str]]
) -> None:
    # The fragment's names say nothing: two dimensions of the same size, in this order.
    t, y = names
    units = {"time": "days since 2001-01-01", "lat": "degrees_north"}
    square = YEAR.replace("sizes = 3, 1, 2, _", "sizes = 2, 2, 2, _").replace("  float tas ;", LAT)
    coordinates = (
        f'  double {t}({t}) ;\n    {t}:units = "{units[second]}" ;\n'
        f'  double {y}({y}) ;\n    {y}:units = "{units[first]}" ;\n'
    )
    text = part(2).replace("time = 2", f"{t} = 2").replace("lat = 2", f"{y} = 2")
    text = text.replace("tas(time, lat)", f"tas({t}, {y})")
    text = text.replace("variables:\n", f"variables:\n{coordinates}")
    assert found(year(tmp_path, text, part(2), square)) == codes


def test_dimensions_of_other_names_are_taken_in_their_order(tmp_path: Path) -> None:
    text = part(3).replace("time = 3", "t = 3").replace("lat = 2", "y = 2").replace("tas(time, lat)", "tas(t, y)")
    assert found(year(tmp_path, text)) == []


def test_an_integer_aggregation_of_floats_loses_something(tmp_path: Path) -> None:
    text = YEAR.replace("float tas", "int tas").replace("-1.e20f", "-1")
    assert found(year(tmp_path, text=text)) == [("REF008", "warning"), ("REF008", "warning")]


def test_missing_values_need_one_in_the_aggregation(tmp_path: Path) -> None:
    text = YEAR.replace("    tas:_FillValue = -1.e20f ;\n", "")
    assert found(year(tmp_path, text=text)) == [("REF009", "warning")] * 2


def test_a_file_that_is_not_there_is_named_with_its_fragment(tmp_path: Path) -> None:
    path = year(tmp_path)
    (tmp_path / "b.nc").unlink()
    (error,) = [f for f in check(path).findings if f.severity == "error"]
    assert (error.code, error.variable) == ("REF003", "tas")
    assert "[1, 0]" in error.message
    assert "b.nc" in error.message


@pytest.mark.parametrize("damage", [b"", b"CDF\x01", b"\x89HDF\r\n\x1a\n" + bytes(600), b"hello world" * 9])
def test_a_damaged_file_is_a_finding(tmp_path: Path, damage: bytes) -> None:
    path = year(tmp_path)
    (tmp_path / "b.nc").write_bytes(damage)
    assert found(path) == [("REF003", "error")]


@pytest.mark.parametrize("way", ["../other/a.nc", "file://{other}/a.nc"])
def test_a_file_elsewhere_needs_to_be_allowed(tmp_path: Path, way: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_cdl(part(3), other / "a.nc")
    path = year(tmp_path / "here", text=YEAR.replace('"a.nc"', f'"{way.format(other=other)}"'))
    (refused,) = [f for f in check(path).findings if f.code == "REF002"]
    assert refused.severity == "warning"
    assert f"allow=[{str(other)!r}]" in refused.message
    assert found(path, allow=(str(other),)) == []


@pytest.mark.parametrize("uri", ["https://example.org/a.nc", "s3://bucket/a.nc", "my_own:///a", "file://[x/a.nc"])
def test_what_is_far_away_is_not_opened(tmp_path: Path, uri: str) -> None:
    assert found(year(tmp_path, text=YEAR.replace('"a.nc"', f'"{uri}"'))) == [("REF002", "warning")]


def test_a_second_check_of_a_url_sees_that_a_fragment_is_gone(tmp_path: Path) -> None:
    year(tmp_path, second=part(2))
    with served(tmp_path) as server:
        with open_dataset(f"{server.url}/year.nc") as dataset:
            found = run(dataset, Options(references=True, select=("REF",))).findings
        assert [f.code for f in found] == ["REF001", "REF005"]
        assert "'b.nc'" in found[1].message
        (tmp_path / "b.nc").unlink()
        with open_dataset(f"{server.url}/year.nc") as dataset:
            lost = run(dataset, Options(references=True, select=("REF",))).findings
    assert [f.code for f in lost] == ["REF001", "REF003"]


def test_encoded_names_are_decoded(tmp_path: Path) -> None:
    path = year(tmp_path, text=YEAR.replace('"a.nc"', '"a%20b.nc"'))
    write_cdl(part(3), tmp_path / "a b.nc")
    assert found(path) == []


def test_an_aggregation_of_aggregations_is_compared_by_its_aggregated_dimensions(tmp_path: Path) -> None:
    inner = (
        YEAR.replace("time = 4", "time = 3").replace("sizes = 3, 1,", "sizes = 2, 1,").replace("0, 1, 2, 3", "0, 1, 2")
    )
    path = year(tmp_path, inner)
    assert found(path) == []


def test_an_aggregation_that_names_itself_comes_to_an_end(tmp_path: Path) -> None:
    text = (
        YEAR.replace('"a.nc", "b.nc"', '"year.nc"')
        .replace("f_time = 2", "f_time = 1")
        .replace("3, 1, 2, _", "4, _, 2, _")
    )
    assert found(year(tmp_path, text=text)) == []


def test_each_file_is_one_step_of_progress(tmp_path: Path) -> None:
    class Heard:
        steps = 0
        total: int | None = None

        def start(self, what: str, total: int | None) -> int:
            assert what == "fragments"
            self.total = total
            return 0

        def advance(self, number: int, steps: int) -> None:
            self.steps += steps

        def finish(self, number: int) -> None:
            pass

    heard = Heard()
    path = year(tmp_path)
    with listening(heard):
        check(path)
    assert (heard.total, heard.steps) == (2, 2)


def test_of_many_wrong_fragments_the_first_are_told_and_the_others_counted(tmp_path: Path) -> None:
    n = 300
    names = ", ".join(f'"part{k}.nc"' for k in range(n))
    text = (
        YEAR.replace("time = 4", f"time = {n}")
        .replace("f_time = 2", f"f_time = {n}")
        .replace("column = 2", f"column = {n}")
    )
    times = ", ".join(map(str, range(n)))
    text = text.replace("0, 1, 2, 3", times).replace('"a.nc", "b.nc"', names)
    text = text.replace("3, 1, 2, _", ", ".join(["1"] * n + ["2"] + ["_"] * (n - 1)))
    told = [f for f in check(year(tmp_path, text=text)).findings if f.code == "REF003"]
    assert len(told) == 101
    assert "200 more" in told[-1].message


def test_text_without_a_place_has_no_files_beside_it() -> None:
    with parse_cdl(YEAR) as dataset:
        findings = run(dataset, Options(references=True, select=("REF",))).findings
    assert {f.code for f in findings} == {"REF001", "REF002"}


def test_a_dataset_of_an_older_version_is_told_that_it_has_aggregations(tmp_path: Path) -> None:
    text = YEAR.replace("CF-1.13", "CF-1.12")
    assert found(year(tmp_path, text=text)) == [("REF011", "warning")]


@pytest.mark.parametrize("name", ["PP", "um"])
def test_fields_of_pp_files_are_looked_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.pp").write_bytes(field() * 2)
    places = [("a.pp", {"file_offset": 296}), ("a.pp", {"file_offset": 8}), ("gone.pp", {"file_offset": 0})]
    places += [("a.pp", {"file_offset": 0, "lbpack": 1})]
    content = nca_files.array(
        ["t", "y", "x"],
        [[0, 1, 2, 3, 4], [0, 2], [0, 3]],
        lambda i, _: {
            "data": {"file": places[i[0]][0], "shape": [1, 2, 3], **places[i[0]][1]},
            "format": name,
        },
    )
    sizes = {"t": 4, "y": 2, "x": 3}
    path = nca_files.aggregation(tmp_path / "a.nca", "tas", "f4", sizes, content, {"units": "K"})
    told = [(f.code, f.message) for f in check(path).findings if f.code in ("REF002", "REF003", "REF004")]
    assert sorted(code for code, _ in told) == ["REF003", "REF003", "REF004"]
    (message,) = [m for code, m in told if code == "REF004"]
    assert "no field of" in message
    assert "begins at the address 8" in message
    assert any("LBPACK = 0, but the aggregation says 1" in m for _, m in told)


@pytest.mark.parametrize("name", ["GRIB", "grib2"])
def test_fragments_in_a_format_that_is_not_read_are_said_to_be_unchecked(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.pp").write_bytes(b"anything")
    for file, severity in (("a.pp", "warning"), ("gone.pp", "error")):
        content = nca_files.array(
            ["t"],
            [[0, 3]],
            lambda *_: {"data": {"file": file, "ncvar": "tas", "shape": [3]}, "format": name},  # noqa: B023
        )
        path = nca_files.aggregation(tmp_path / f"{file}.nca", "tas", "f4", {"t": 3}, content, {"units": "K"})
        told = [f for f in check(path).findings if f.code == "REF003"]
        assert [f.severity for f in told] == [severity]
        if severity == "warning":
            assert f"not checked: fragments in the format '{name}' are not read" in told[0].message


def test_a_fragment_that_becomes_a_link_while_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cfagg.storage import files

    path = year(tmp_path)
    outside = tmp_path.parent / f"{tmp_path.name}.outside.nc"
    (tmp_path / "b.nc").rename(outside)
    (tmp_path / "b.nc").touch()
    opened = files._open

    def swaps(name: str, context: files.Context) -> int:
        if name == str(tmp_path / "b.nc") and not (tmp_path / "b.nc").is_symlink():
            (tmp_path / "b.nc").unlink()
            (tmp_path / "b.nc").symlink_to(outside)
        return opened(name, context)

    monkeypatch.setattr(files, "_open", swaps)
    (told,) = [f for f in check(path).findings if f.code != "REF001"]
    assert told.code == "REF002"
    assert str(outside) in told.message


def at(days: list[float], units: str = "days since 2001-01-01", name: str = "time", more: str = "") -> str:
    """Return a fragment with coordinates of time."""
    n = len(days)
    coordinate = f'  double {name}({name}) ;\n    {name}:units = "{units}" ;\n{more}  float tas'
    text = (
        part(n)
        .replace("  float tas", coordinate, 1)
        .replace("time = ", f"{name} = ")
        .replace("tas(time", f"tas({name}")
    )
    return text.replace("data:\n", f"data:\n  {name} = {', '.join(map(str, days))} ;\n")


def misplaced(path: Path) -> list[str]:
    """Return the messages about fragments with the coordinates of another place."""
    findings = check(path, data=True).findings
    assert [f.code for f in findings if f.code != "REF012"] == ["REF001"]
    return [f.message for f in findings if f.code == "REF012"]


def test_a_fragment_with_the_times_of_another_place_is_found(tmp_path: Path) -> None:
    (said,) = misplaced(year(tmp_path, at([0, 1, 2]), at([7])))
    assert said.startswith("fragment [1, 0] in 'b.nc': 'tas' has 'time' 7 where the aggregation has 'time' 3 days")
    (said,) = misplaced(year(tmp_path, at([1, 2, 3]), at([3])))
    assert "fragment [0, 0] in 'a.nc': 'tas' has 'time' 1 … 3 where the aggregation has 'time' 0 … 2 days" in said


def test_coordinates_of_fragments_are_read_only_with_data(tmp_path: Path) -> None:
    result = check(year(tmp_path, at([1, 2, 3]), at([7])))
    assert [f.code for f in result.findings if f.severity != "info"] == []
    assert result.skipped["REF012"] == "values are read only with --data"


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (at([24, 48, 72], "hours since 2000-12-31"), at([0], "days since 2001-01-04")),
        (at([0, 1, 2], name="t"), at([3])),
        (at([0.2, 1.4, 1.6]), at([2.6])),
        (at([5, 6, 7], more='    time:standard_name = "forecast_period" ;\n'), None),
        (at([5, 6, 7], "days since 2001-01-01", more='    time:calendar = "360_day" ;\n'), None),
        (at([5, 6, 7], "km"), None),
        (at([5, 6, 7], more="    time:scale_factor = 2. ;\n"), None),
        (None, at([3], name="t")),
        (at([5, 6, 7]).replace("double time(time)", "double time(lat)").replace("5, 6, 7", "5, 6"), None),
    ],
)
def test_what_lies_in_its_place_or_cannot_be_compared_is_clean(
    tmp_path: Path, first: str | None, second: str | None
) -> None:
    text = YEAR.replace("    time:units", '    time:standard_name = "time" ;\n    time:units')
    assert misplaced(year(tmp_path, first, second, text)) == []


@pytest.mark.parametrize("times", ["0, 0, 1, 2", "_, 0, 1, 2"])
def test_coordinates_that_are_not_distinct_or_missing_tell_no_place(tmp_path: Path, times: str) -> None:
    text = YEAR.replace("time = 0, 1, 2, 3", f"time = {times}").replace(
        "data:\n", "    time:_FillValue = NaN ;\ndata:\n"
    )
    assert misplaced(year(tmp_path, at([0.1, 5, 6]), None, text)) == []


def test_of_a_single_coordinate_nothing_tells_how_far_others_lie_apart(tmp_path: Path) -> None:
    text = YEAR.replace("lat = 2", "lat = 1").replace("3, 1, 2, _", "3, 1, 1, _").replace("  float tas ;", LAT)
    one = (
        (PART % (3, "0, 0, 0"))
        .replace("lat = 2", "lat = 1")
        .replace("  float tas", LAT[: LAT.index("  float")] + "  float tas")
    )
    two = one.replace("time = 3", "time = 1").replace("0, 0, 0", "0").replace("data:\n", "data:\n  lat = 7 ;\n")
    assert misplaced(year(tmp_path, one, two, text.replace("data:\n", "data:\n  lat = 50 ;\n"))) == []


def test_without_data_the_coordinates_are_not_even_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "lines", None)
    assert found(year(tmp_path)) == []


def test_a_time_without_its_dimension_is_compared(tmp_path: Path) -> None:
    scalar = at([7]).replace("time(time)", "time").replace("tas(time, lat)", "tas(lat)").replace("  time = 1 ;\n", "")
    (said,) = misplaced(year(tmp_path, at([0, 1, 2]), scalar))
    assert "'time' 7 where the aggregation has 'time' 3 days since 2001-01-01" in said


def test_latitudes_in_the_other_direction_are_found(tmp_path: Path) -> None:
    lat = '  double lat(lat) ;\n    lat:units = "degrees_north" ;\n  float tas'
    whole = YEAR.replace("  float tas", lat, 1).replace("data:\n", "data:\n  lat = 10, 20 ;\n")
    turned = part(3).replace("  float tas", lat, 1).replace("data:\n", "data:\n  lat = 20, 10 ;\n")
    (said,) = misplaced(year(tmp_path, turned, text=whole))
    assert "has 'lat' 20 … 10 where the aggregation has 'lat' 10 … 20 degrees_north" in said


def test_coordinates_without_units_are_not_taken_for_radians(tmp_path: Path) -> None:
    whole = YEAR.replace("  float tas ;", LAT).replace("data:\n", "data:\n  lat = 10, 20 ;\n")
    plain = (
        part(3)
        .replace("  float tas", "  double lat(lat) ;\n  float tas", 1)
        .replace("data:\n", "data:\n  lat = 10, 20 ;\n")
    )
    assert misplaced(year(tmp_path, plain, text=whole)) == []


def test_longitudes_a_circle_apart_are_the_same(tmp_path: Path) -> None:
    lon = '  double lat(lat) ;\n    lat:units = "degrees_east" ;\n  float tas'
    whole = YEAR.replace("  float tas", lon, 1).replace("data:\n", "data:\n  lat = 190, 350 ;\n")
    west = part(3).replace("  float tas", lon, 1).replace("data:\n", "data:\n  lat = -170, -10 ;\n")
    assert misplaced(year(tmp_path, west, text=whole)) == []


def nca(folder: Path, **described: object) -> Path:
    """Return an aggregation of two files, the second of which runs from north to south."""
    lats = {"a": [10.0, 20.0], "b": [40.0, 30.0, 20.0][: 3 if "(" in str(described) else 2]}
    for name, values in lats.items():
        lat = {"lat": (["lat"], values, {"units": "degrees_north"})}
        nca_files.fragment(folder / f"{name}.nc", "tas", values, ["lat"], {"units": "K"}, coordinates=lat)

    def describe(index: tuple[int, ...], location: list[list[int]]) -> dict[str, object]:
        name = "ab"[index[0]]
        data = {"file": f"{name}.nc", "ncvar": "tas", "shape": [len(lats[name])]}
        return {"data": data, "format": "netCDF", **(described if index[0] else {})}

    content = nca_files.array(["lat"], [[0, 2, 4]], describe)
    lat = {"lat": (["lat"], [10.0, 20.0, 30.0, 40.0], {"units": "degrees_north"})}
    return nca_files.aggregation(folder / "a.nca", "tas", "f8", {"lat": 4}, content, {"units": "K"}, coordinates=lat)


def test_a_fragment_whose_direction_is_declared_has_its_coordinates_in_the_other_one(tmp_path: Path) -> None:
    for declared, number in (({}, 1), ({"directions": {"lat": False}}, 0)):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert len(misplaced(nca(folder, **declared))) == number


@pytest.mark.parametrize("part", ["[(0, 2, 1)]", "[[1, 0]]"])
def test_coordinates_of_a_part_of_a_variable_are_not_compared(tmp_path: Path, part: str) -> None:
    assert misplaced(nca(tmp_path, part=part)) == []
