"""Compression by coordinate subsampling: what is found, and what is let pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checking.rules.asking import codes, findings
from tests.effort import examples

SWATH = """netcdf a {
dimensions: track = 6 ; scan = 9 ; tp_track = 4 ; tp_scan = 3 ; part_track = 2 ; part_scan = 2 ; channel = 2 ;
variables:
  float radiance(channel, track, scan) ; radiance:coordinate_interpolation = "lat: lon: geo time: line" ;
  char geo ; geo:interpolation_name = "bi_quadratic_latitude_longitude" ; geo:computational_precision = "32" ;
    geo:tie_point_mapping = "track: track_index tp_track part_track scan: scan_index tp_scan part_scan" ;
    geo:interpolation_parameters = "CE1: ce1 ca3: ca3 interpolation_subarea_flags: flags" ;
  char line ; line:interpolation_name = "linear" ; line:computational_precision = "64" ;
    line:tie_point_mapping = "track: track_index tp_track" ;
  int track_index(tp_track) ; short scan_index(tp_scan) ;
  float lat(tp_track, tp_scan) ; lat:units = "degrees_north" ; lat:bounds_tie_points = "lat_b" ;
  float lon(tp_track, tp_scan) ; lon:units = "degrees_east" ;
  float lat_b(tp_track, tp_scan) ;
  double time(tp_track) ; time:units = "days since 2000-01-01" ;
  float ce1(tp_track, part_scan) ; float ca3(part_track, part_scan) ;
  byte flags(part_track, part_scan) ; flags:flag_masks = 1b ; flags:flag_meanings = "location_use_3d_cartesian" ;
  :Conventions = "CF-1.13" ;
data:
  track_index = 0, 2, 3, 5 ; scan_index = 0, 4, 8 ;
}"""


def changed(*changes: tuple[str, str]) -> str:
    text = SWATH
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [('geo:interpolation_name = "bi_quadratic_latitude_longitude"', 'geo:interpolation_description = "our own"')],
        [("radiance(channel, track, scan)", "radiance(scan, track)")],
        [("float lon(tp_track, tp_scan)", "float lon(tp_scan, tp_track)")],
        [("double time(tp_track)", "double time(channel, tp_track)")],
        [("float radiance(channel, track, scan) ;", 'char radiance ; radiance:dimensions = "scan track" ;')],
    ],
)
def test_sound_tie_points_pass(changes: list[tuple[str, str]]) -> None:
    assert codes(changed(*changes), "SUB") == []


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("SUB001", [('"lat: lon: geo time: line"', '"lat lon geo"')]),
        ("SUB001", [('"lat: lon: geo time: line"', '"lat: lon: geo time:"')]),
        ("SUB001", [('"lat: lon: geo time: line"', "1")]),
        ("SUB001", [("lat: lon: geo", "lat: lon: geography")]),
        ("SUB001", [("float lon(", "char lon(")]),
        ("SUB002", [('"linear"', '"lineal"')]),
        ("SUB002", [('line:interpolation_name = "linear" ;', "")]),
        ("SUB002", [("line:computational", 'line:interpolation_description = "straight" ; line:computational')]),
        ("SUB003", [('"32"', '"16"')]),
        ("SUB003", [('line:computational_precision = "64" ;', "")]),
        ("SUB003", [('"32"', "32")]),
        ("SUB004", [('line:tie_point_mapping = "track: track_index tp_track" ;', "")]),
        ("SUB004", [('"track: track_index tp_track"', '"track: track_index"')]),
        ("SUB004", [('"track: track_index tp_track"', '"line: track_index tp_track"')]),
        ("SUB004", [("tp_scan part_scan", "tp_scan channel")]),
        ("SUB005", [("double time(tp_track)", "double time(tp_track, track)")]),
        ("SUB005", [("float lon(tp_track, tp_scan)", "float lon(channel, tp_track, tp_scan)")]),
        ("SUB006", [("scan: scan_index", "scan: index")]),
        ("SUB007", [("int track_index", "float track_index")]),
        ("SUB009", [("track_index = 0, 2, 3, 5", "track_index = 0, 1, 2, 5")]),
        ("SUB009", [("track_index = 0, 2, 3, 5", "track_index = 0, 2, 3, 6")]),
        ("SUB009", [("scan_index = 0, 4, 8", "scan_index = 0, 8, 4")]),
        ("SUB009", [("scan_index = 0, 4, 8", "scan_index = 1, 4, 8")]),
        ("SUB011", [("interpolation_subarea_flags: flags", "")]),
        ("SUB011", [("CE1: ce1", "ce4: ce1")]),
        ("SUB011", [("ca3: ca3", "ca3: ca4")]),
        ("SUB011", [("CE1: ce1", "CE1: ce1 ca3")]),
        ("SUB011", [('"location_use_3d_cartesian"', '"other"')]),
        ("SUB012", [("float ce1(tp_track, part_scan)", "float ce1(track, part_scan)")]),
        ("SUB012", [("float ce1(tp_track, part_scan)", "float ce1(tp_track, part_scan, tp_scan)")]),
        ("SUB013", [('"lat_b"', '"lat_c"')]),
        ("SUB013", [('"lat_b"', '"lat_b lat"')]),
        ("SUB014", [("float lat_b(tp_track, tp_scan)", "float lat_b(tp_track)")]),
        ("SUB015", [("float lat_b(", "char lat_b(")]),
        (
            "SUB016",
            [("float lat_b(tp_track, tp_scan) ;", "float lat_b(tp_track, tp_scan) ; lat_b:missing_value = 9.f ;")],
        ),
        ("SUB016", [("float lat_b(tp_track, tp_scan) ;", 'float lat_b(tp_track, tp_scan) ; lat_b:axis = "Y" ;')]),
    ],
)
def test_one_defect_is_found_by_its_rule_alone(code: str, changes: list[tuple[str, str]]) -> None:
    found = {f.code for f in findings(changed(*changes), "SUB") if f.severity == "error"}
    assert found == {code}


def test_the_size_of_a_subarea_dimension_is_found_with_values_and_in_part_without() -> None:
    text = changed(("part_track = 2", "part_track = 3"))
    assert codes(text, "SUB010") == ["SUB010"]
    assert codes(text, "SUB010", data=False) == []
    assert codes(changed(("part_track = 2", "part_track = 4")), "SUB010", data=False) == ["SUB010"]


def test_a_repeated_index_is_a_matter_of_two_readings() -> None:
    found = findings(changed(("track_index = 0, 2, 3, 5", "track_index = 0, 2, 2, 5")), "SUB009")
    assert [f.severity for f in found] == ["warning"]


def test_what_bounds_inherit_is_not_repeated() -> None:
    again = 'float lat_b(tp_track, tp_scan) ; lat_b:units = "degrees_north" ;'
    (found,) = findings(changed(("float lat_b(tp_track, tp_scan) ;", again)), "SUB")
    assert (found.code, found.severity, found.fix[0].attribute, found.fix[0].value) == (
        "SUB018",
        "warning",
        "units",
        None,
    )


@settings(max_examples=examples(100))
@given(st.lists(st.lists(st.integers(2, 9), min_size=1, max_size=4), min_size=1, max_size=4))
def test_indices_of_continuous_areas_pass_whatever_their_sizes(areas: list[list[int]]) -> None:
    steps = [s for area in areas for s in (1, *area)][1:]
    index = np.concatenate(([0], np.cumsum(steps)))
    number = sum(len(a) for a in areas)
    values = ", ".join(map(str, index))
    text = f"""netcdf a {{ dimensions: x = {index[-1] + 1} ; tp = {index.size} ; part = {number} ; variables:
      float v(x) ;
      v:coordinate_interpolation = "lat: q" ; char q ; q:interpolation_name = "quadratic" ;
      q:computational_precision = "64" ; q:tie_point_mapping = "x: i tp part" ; q:interpolation_parameters = "w: w" ;
      int i(tp) ; double lat(tp) ; lat:units = "degrees_north" ; double w(part) ; data: i = {values} ; }}"""
    assert codes(text, "SUB") == []


@pytest.mark.parametrize(
    "changes",
    [
        [("scan: scan_index tp_scan part_scan", "scan: scan_index tp_track part_scan")],
        [("scan: scan_index tp_scan part_scan", "scan: scan_index tp_scan part_track")],
        [("scan: scan_index tp_scan part_scan", "scan: scan_index track part_scan")],
        [("scan: scan_index tp_scan part_scan", "tp_scan: scan_index tp_scan part_scan")],
    ],
)
def test_what_follows_from_a_wrong_mapping_is_not_told(changes: list[tuple[str, str]]) -> None:
    assert set(codes(changed(*changes), "SUB")) == {"SUB004"}


def test_the_values_of_an_index_variable_of_another_dimension_are_not_looked_at() -> None:
    assert codes(changed(("short scan_index(tp_scan)", "short scan_index(track)")), "SUB") == ["SUB008"]


def test_attributes_of_bounds_tie_points_that_differ_are_an_error_and_no_repetition() -> None:
    other = 'float lat_b(tp_track, tp_scan) ; lat_b:units = "degreesN" ;'
    (found,) = findings(changed(("float lat_b(tp_track, tp_scan) ;", other)), "SUB")
    # Which of the two is right cannot be known, so deleting one may alter the meaning.
    assert (found.code, found.severity, found.fix[0].safe) == ("SUB016", "error", False)


def test_bytes_that_are_declared_unsigned_are_indices_beyond_127() -> None:
    text = """netcdf a { dimensions: x = 256 ; land = 2 ; variables:
      byte land(land) ; land:compress = "x" ; land:_Unsigned = "true" ; data: land = 0, -1 ; }"""
    assert codes(text, "GAT003") == []
    assert codes(text.replace("256", "255"), "GAT003") == ["GAT003"]
    index = ("short scan_index(tp_scan) ;", 'byte scan_index(tp_scan) ; scan_index:_Unsigned = "true" ;')
    assert codes(changed(("scan = 9", "scan = 200"), index, ("0, 4, 8", "0, 4, -57")), "SUB") == []
