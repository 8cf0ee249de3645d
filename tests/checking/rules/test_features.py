"""Discrete sampling geometries: what is found, and what is let pass."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checking.rules.asking import codes, findings, told
from tests.effort import examples

COORDINATES = """  int time(t) ; time:standard_name = "time" ; time:units = "hours since 2000-01-01" ;
  double lat(y) ; lat:units = "degrees_north" ;
  double lon(x) ; lon:units = "degrees_east" ;
  float z(v) ; z:standard_name = "altitude" ; z:units = "m" ; z:positive = "up" ;
"""


def dataset(
    type_: str,
    *,
    shape: str,
    t: str,
    xy: str,
    z: str = "",
    dimensions: str = "s = 2 ; p = 3 ; o = 4 ;",
    variables: str = "",
    names: str = "time lat lon z",
    values: str = "",
) -> str:
    """Return CDL of features with their coordinates along these dimensions, none for an empty text."""
    coordinates = COORDINATES
    for name, placed in (("(t)", t), ("(y)", xy), ("(x)", xy), ("(v)", z)):
        coordinates = coordinates.replace(name, f"({placed})" if placed else "")
    return f"""netcdf a {{ dimensions: {dimensions} variables: {coordinates} {variables}
  float q({shape}) ; q:units = "1" ; q:coordinates = "{names}" ;
  :Conventions = "CF-1.13" ; :featureType = "{type_}" ; data: {values} }}"""


COUNT = 'int rows(s) ; rows:sample_dimension = "o" ;'
INDEX = 'int parent(o) ; parent:instance_dimension = "s" ;'
BOTH = 'int parent(p) ; parent:instance_dimension = "s" ; int rows(p) ; rows:sample_dimension = "o" ;'

SOUND = {
    "points": dataset("point", shape="o", t="o", xy="o", z="o"),
    "series, one time axis": dataset("timeSeries", shape="s, o", t="o", xy="s"),
    "series, each its times": dataset("timeSeries", shape="s, o", t="s, o", xy="s"),
    "series, turned": dataset("timeSeries", shape="o, s", t="o, s", xy="s"),
    "a single series": dataset("timeSeries", shape="o", t="o", xy=""),
    "series, counted": dataset("TimeSeries", shape="o", t="o", xy="s", variables=COUNT),
    "series, indexed": dataset("timeseries", shape="o", t="o", xy="s", z="s", variables=INDEX),
    "trajectories": dataset("trajectory", shape="s, o", t="s, o", xy="s, o"),
    "a single trajectory": dataset("trajectory", shape="o", t="o", xy="o", z="o"),
    "trajectories, counted": dataset("trajectory", shape="o", t="o", xy="o", variables=COUNT),
    "profiles, one set of levels": dataset("profile", shape="s, o", t="s", xy="s", z="o"),
    "profiles, each its levels": dataset("profile", shape="s, o", t="s", xy="s", z="s, o"),
    "a single profile": dataset("profile", shape="o", t="", xy="", z="o"),
    "profiles, counted": dataset("profile", shape="o", t="s", xy="s", z="o", variables=COUNT),
    "series of profiles": dataset("timeSeriesProfile", shape="s, p, o", t="s, p", xy="s", z="s, p, o"),
    "series of profiles at one place": dataset("timeSeriesProfile", shape="p, o", t="p", xy="", z="o"),
    "series of profiles, ragged": dataset("timeSeriesProfile", shape="o", t="p", xy="s", z="o", variables=BOTH),
    "profiles on trajectories": dataset("trajectoryProfile", shape="s, p, o", t="s, p", xy="s, p", z="s, p, o"),
    "profiles on a trajectory": dataset("trajectoryProfile", shape="p, o", t="p", xy="p", z="o"),
    "profiles on trajectories, ragged": dataset("trajectoryProfile", shape="o", t="p", xy="p", z="o", variables=BOTH),
    "a place and the drift around it": dataset(
        "timeSeries",
        shape="o",
        t="o",
        xy="",
        names="time lat lon drift",
        variables='double drift(o) ; drift:units = "degrees_north" ;',
    ),
    "series of one element each": dataset(
        "timeSeries", shape="s, o", t="s, o", xy="s", dimensions="s = 2 ; o = 1 ; p = 1 ;"
    ),
    "profiles of one level each": dataset(
        "profile", shape="s, o", t="s", xy="s", z="s, o", dimensions="s = 2 ; o = 1 ; p = 1 ;"
    ),
    "a trajectory of one element": dataset("trajectory", shape="o", t="o", xy="", dimensions="o = 1 ; s = 1 ; p = 1 ;"),
}


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND.keys())
def test_every_form_of_appendix_h_passes(text: str) -> None:
    found = [str(f) for f in findings(text, "DSG", data=False) if f.code != "DSG012"]
    assert found == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (dataset("timeSeries", shape="o", t="o", xy="o"), "DSG016"),
        (dataset("timeSeries", shape="s, o", t="o", xy="s, o"), "DSG016"),
        (dataset("trajectory", shape="o", t="o", xy=""), "DSG016"),
        (dataset("trajectory", shape="s, o", t="s, o", xy="s"), "DSG016"),
        (dataset("trajectoryProfile", shape="p, o", t="p", xy="", z="o"), "DSG016"),
        (dataset("timeSeriesProfile", shape="p, o", t="p", xy="p", z="o"), "DSG016"),
        (dataset("profile", shape="o", t="", xy="", names="time lat lon"), "DSG015"),
        (dataset("point", shape="o", t="o", xy="o", names="lat lon"), "DSG015"),
        (dataset("timeSeries", shape="o", t="o", xy="", names="time lat"), "DSG015"),
        (dataset("trajectorySeries", shape="o", t="o", xy="o"), "DSG001"),
        (dataset("", shape="o", t="o", xy="o"), "DSG001"),
        (dataset("timeSeries", shape="o", t="o", xy="s", variables=COUNT.replace('"o"', '"obs"')), "DSG004"),
        (dataset("timeSeries", shape="o", t="o", xy="s", variables=COUNT.replace('"o"', "1")), "DSG004"),
        (dataset("timeSeries", shape="o", t="o", xy="s", variables=COUNT.replace("int", "double")), "DSG005"),
        (dataset("timeSeries", shape="o", t="o", xy="s", variables=COUNT.replace("(s)", "(o)")), "DSG005"),
        (dataset("timeSeries", shape="o", t="o", xy="s", variables=COUNT.replace("(s)", "(s, p)")), "DSG005"),
        (dataset("timeSeries", shape="o", t="o", xy="s", variables=INDEX.replace('"s"', '"t"')), "DSG006"),
        (dataset("timeSeries", shape="o", t="o", xy="s", variables=INDEX.replace("int", "char")), "DSG007"),
        (dataset("timeSeries", shape="o", t="o", xy="s", variables=INDEX.replace("(o)", "(s)")), "DSG007"),
        (dataset("timeSeries", shape="o", t="o", xy="s", variables=INDEX.replace("(o)", "(o, s)")), "DSG007"),
        (
            dataset(
                "timeSeriesProfile", shape="o", t="p", xy="s", z="o", variables=BOTH.replace("parent(p)", "parent(o)")
            ),
            "DSG019",
        ),
    ],
)
def test_one_defect_is_found_by_its_rule_alone(text: str, code: str) -> None:
    found = {f.code for f in findings(text, "DSG", data=False) if f.severity == "error"}
    assert found == {code}


@pytest.mark.parametrize(
    "text",
    [
        dataset("profile", shape="o", t="o", xy="o", z="o"),
        dataset("point", shape="o", t="o", xy=""),
        dataset("point", shape="p, o", t="o", xy="o"),
    ],
)
def test_what_two_readings_allow_is_a_warning(text: str) -> None:
    severities = {f.severity for f in findings(text, "DSG016", data=False)}
    assert severities == {"warning"}


def test_a_feature_type_with_blanks_can_be_put_right() -> None:
    (found,) = findings(dataset("Time series ", shape="o", t="o", xy=""), "DSG001")
    assert (found.fix[0].attribute, found.fix[0].value, found.fix[0].safe) == ("featureType", "timeSeries", True)


def test_data_without_coordinates_are_found_where_they_need_some() -> None:
    text = SOUND["series, counted"].replace('q:coordinates = "time lat lon z" ;', "")
    (found,) = findings(text, "DSG014")
    assert (found.variable, found.severity) == ("q", "error")


@pytest.mark.parametrize(
    "more",
    [
        'int height(s) ; height:units = "m" ;',
        "char remarks(o) ;",
        'byte good(o) ; good:flag_values = 1b ; good:flag_meanings = "good" ; q:ancillary_variables = "good" ;',
        "int number ;",
    ],
)
def test_what_is_not_data_of_elements_needs_no_coordinates(more: str) -> None:
    text = SOUND["series, counted"].replace(":Conventions", f"{more} :Conventions")
    assert codes(text, "DSG014") == []


def test_a_grid_of_coordinate_variables_needs_no_coordinates_attribute() -> None:
    text = """netcdf a { dimensions: time = 2 ; lat = 2 ; lon = 2 ; variables: int time(time) ;
      time:units = "days since 2000-01-01" ; double lat(lat) ; lat:units = "degrees_north" ; double lon(lon) ;
      lon:units = "degrees_east" ; float q(time, lat, lon) ; q:units = "1" ; :featureType = "timeSeries" ;
      :Conventions = "CF-1.13" ; }"""
    assert codes(text, "DSG014", data=False) == []


def test_names_of_missing_variables_are_left_to_another_rule() -> None:
    text = dataset("timeSeries", shape="o", t="o", xy="", names="time lat longitude")
    assert codes(text, "DSG015", data=False) == []


def test_a_dataset_without_features_has_no_findings() -> None:
    text = 'netcdf a { dimensions: x = 2 ; variables: float q(x) ; :Conventions = "CF-1.13" ; }'
    assert codes(text, "DSG") == []


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("timeseries_id", []),
        ("mesh_topology", []),
        ("face_node_connectivity", []),
        ("cfa", ["DSG010"]),
        ("Timeseries_ID", ["DSG010"]),
        ("name", ["DSG010"]),
        ("trajectory_id", ["DSG011"]),
    ],
)
def test_values_of_cf_role(role: str, expected: list[str]) -> None:
    text = dataset("timeSeries", shape="s, o", t="o", xy="s", variables=f'int id(s) ; id:cf_role = "{role}" ;')
    assert codes(text, "DSG", data=False) == expected


@pytest.mark.parametrize("role", ["grid_topology", "nca", "nca_variable", "nca_private", "cfa_variable", "cfa_private"])
def test_roles_that_sgrid_nca_and_cfa_prescribe_are_known(role: str) -> None:
    text = dataset("timeSeries", shape="s, o", t="o", xy="s", variables=f'int id(s) ; id:cf_role = "{role}" ;')
    assert "DSG010" not in codes(text, "DSG", data=False)


def test_two_levels_have_two_identifiers() -> None:
    ids = 'int a(s) ; a:cf_role = "timeseries_id" ; int b(p) ; b:cf_role = "profile_id" ;'
    text = SOUND["series of profiles, ragged"].replace(":Conventions", f"{ids} :Conventions")
    assert codes(text, "DSG", data=False) == []
    twice = text.replace(":Conventions", 'int d(s) ; d:cf_role = "timeseries_id" ; :Conventions')
    assert codes(twice, "DSG", data=False) == ["DSG011"]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [("1, 3", []), ("0, 4", []), ("4, _", []), ("2, 3", ["error"]), ("-1, 5", ["error"]), ("1, 1", ["warning"])],
)
def test_counts_fill_the_samples(counts: str, expected: list[str]) -> None:
    text = SOUND["series, counted"].replace("data: ", f"data: rows = {counts} ; ")
    assert [f.severity for f in findings(text, "DSG008")] == expected


@pytest.mark.parametrize(
    ("indices", "expected"),
    [("0, 1, 1, 0", []), ("0, 1, _, _", []), ("0, 1, 2, 0", ["DSG009"]), ("-1, 1, 1, 0", ["DSG009"])],
)
def test_indices_are_of_instances(indices: str, expected: list[str]) -> None:
    text = SOUND["series, indexed"].replace("data: ", f"data: parent = {indices} ; ")
    assert codes(text, "DSG009") == expected


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        ("string id(s)", '"a", "b"', []),
        ("string id(s)", '"a", "a"', ["DSG013"]),
        ("string id(s)", '"", ""', []),
        ("char id(s, o)", '"ab", "ab"', ["DSG013"]),
        ("char id(s, o)", '"ab", "abc"', []),
        ("int id(s)", "7, 7", ["DSG013"]),
        ("int id(s)", "_, _", []),
        ("double id", "7", []),
    ],
)
def test_identifiers_are_unique(declared: str, values: str, expected: list[str]) -> None:
    text = dataset(
        "timeSeries",
        shape="s, o",
        t="o",
        xy="s",
        variables=f'{declared} ; id:cf_role = "timeseries_id" ;',
        values=f"id = {values} ;",
    )
    assert codes(text, "DSG013") == expected


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("series, each its times", "time = 1, 2, 3, 4, 1, 2, 3, _ ;", 0),
        ("series, each its times", "time = 1, 2, 3, 4, 1, 3, 2, 4 ;", 1),
        ("series, turned", "time = 1, 9, 2, 10, 3, 11, 4, 12 ;", 0),
        ("series, turned", "time = 1, 9, 2, 10, 2, 11, 4, 12 ;", 1),
        ("series, counted", "time = 5, 6, 1, 2 ; rows = 2, 2 ;", 0),
        ("series, counted", "time = 5, 6, 1, 2 ; rows = 3, 1 ;", 1),
        ("series, counted", "time = 5, 6, 1, 2 ; rows = 2000000000, 1 ;", 0),
        ("series, indexed", "time = 5, 1, 6, 2 ; parent = 0, 1, 0, 1 ;", 0),
        ("series, indexed", "time = 5, 1, 6, 2 ; parent = 0, 0, 1, 1 ;", 2),
        ("a single trajectory", "time = 1, 2, 3, 3 ;", 1),
        ("points", "time = 4, 3, 2, 1 ;", 0),
    ],
)
def test_times_of_each_feature_grow(text: str, values: str, expected: int) -> None:
    variables = 'int id(s) ; id:cf_role = "timeseries_id" ; :Conventions'
    found = told(SOUND[text].replace(":Conventions", variables).replace("data: ", f"data: {values} "), "DSG018")
    assert len(found) == bool(expected)
    assert all(f"({expected} in all)" in f for f in found)


def test_times_of_a_feature_are_compared_as_they_are_stored() -> None:
    times = ", ".join(f"170000000000000000{n}" for n in (1, 2, 3, 3))
    text = SOUND["a single trajectory"].replace("int time", "int64 time").replace("data: ", f"data: time = {times} ; ")
    (found,) = told(text, "DSG018")
    assert "1700000000000000003 follows 1700000000000000003 (1 in all)" in found


def test_data_at_missing_times_are_found() -> None:
    values = "time = 1, 2, 3, 4, 1, 2, _, _ ; q = 1, 2, 3, 4, 1, 2, 3, _ ;"
    text = SOUND["series, each its times"].replace("data: ", f"data: {values} ")
    (found,) = told(text, "DSG017")
    assert "1 value given where 'time' is missing" in found


@settings(max_examples=examples(60))
@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.booleans())
def test_ragged_arrays_of_any_sizes_pass(rows: list[int], indexed: bool) -> None:
    total = sum(rows)
    place = [i for i, n in enumerate(rows) for _ in range(n)]
    time = [k for n in rows for k in range(n)]
    values = f"rows = {', '.join(map(str, rows))} ;"
    if total:
        values += f" time = {', '.join(map(str, time))} ;"
    variables = COUNT
    if indexed:
        variables = INDEX
        values = f"time = {', '.join(map(str, time))} ; parent = {', '.join(map(str, place))} ;" if total else ""
    text = dataset(
        "timeSeries",
        shape="o",
        t="o",
        xy="s",
        dimensions=f"s = {len(rows)} ; p = 1 ; o = {total} ;",
        variables=variables + ' int id(s) ; id:cf_role = "timeseries_id" ;',
        values=values + f" id = {', '.join(map(str, range(len(rows))))} ;",
    )
    assert codes(text, "DSG") == []


def test_features_are_no_matter_before_version_1_6() -> None:
    assert codes(dataset("station", shape="o", t="o", xy="o"), "DSG", cf_version="1.5") == []


IDENTIFIED = 'int id(s) ; id:cf_role = "timeseries_id" ;'


@pytest.mark.parametrize(
    ("shape", "t", "z", "expected"),
    [("s, o", "o", "s", "DSG003"), ("s, o", "s, o", "", "DSG002"), ("s, o", "s", "s, o", "DSG002")],
)
def test_features_with_elements_of_their_own_need_a_type(shape: str, t: str, z: str, expected: str) -> None:
    text = dataset("X", shape=shape, t=t, xy="s", z=z, variables=IDENTIFIED, values="id = 1, 2 ;")
    assert codes(text.replace(':featureType = "X" ;', ""), "DSG") == [expected]


@pytest.mark.parametrize(
    "count",
    ["int rows(s) ; rows:sample_dimension = 3 ;", 'int rows ; rows:sample_dimension = "o" ;',
     'int rows(s, p) ; rows:sample_dimension = "o" ;', 'int rows(o) ; rows:sample_dimension = "o" ;',
     'int rows(s) ; rows:sample_dimension = "samples" ;'],
)  # fmt: skip
def test_coordinates_are_not_wrong_because_a_count_is(count: str) -> None:
    text = dataset("timeSeries", shape="o", t="o", xy="s", names="time lat lon", variables=count)
    found = {f.code for f in findings(text) if f.severity == "error"}
    assert found & {"DSG004", "DSG005"}
    assert not found & {"COO010", "COO014"}


def test_profiles_may_be_numbered_for_each_station_but_not_twice() -> None:
    text = dataset(
        "timeSeriesProfile",
        shape="s, p, o",
        t="s, p",
        xy="s",
        z="s, p, o",
        variables='int id(s, p) ; id:cf_role = "profile_id" ;',
        values="id = 1, 2, 3, IDS ;",
    )
    assert codes(text.replace("IDS", "1, 2, 3"), "DSG013") == []
    assert codes(text.replace("IDS", "1, 1, 3"), "DSG013") == ["DSG013"]
