"""Variables of datasets as members of arrays: which are joined, and why others are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cfagg.cf.joining import Boxes, Described, Members, Options, Reason, describe, describe_all, join, members_of, why
from cfagg.cf.joining.equality import equal_arrays
from cfagg.cf.references import Resolver
from cfagg.model.dataset import Dataset, Group
from tests.cf.joining.datasets import add, described

TIME = {"standard_name": "time", "units": "days since 2000-01-01"}
LATITUDE = {"standard_name": "latitude", "units": "degrees_north"}
LONGITUDE = {"standard_name": "longitude", "units": "degrees_east"}
TAS = {"standard_name": "air_temperature", "units": "K"}


def tas(times: list[float], options: Options | None = None, **changes: Any) -> Described:
    """Return the description of a variable along time and latitude."""
    root = Group()
    time = {**TIME, **changes.pop("time", {})}
    latitude = changes.pop("latitude", [10.0, 20.0])
    if "bounds" in changes:
        add(root, "time_bnds", ("time", "bnds"), changes.pop("bounds"))
        time["bounds"] = "time_bnds"
    add(root, "time", ("time",), np.array(times), **time)
    add(root, "lat", ("lat",), np.array(latitude), **LATITUDE)
    for name, (dims, values, attributes) in changes.pop("others", {}).items():
        add(root, name, dims, values, **attributes)
    data = np.zeros((len(times), len(latitude)), "f4")
    found = add(root, "tas", ("time", "lat"), data, **{**TAS, **changes})
    return describe(found, Resolver(Dataset("a.nc", "netcdf", root)), options)


def joined(*described: Described, options: Options | None = None) -> tuple[Members, Boxes]:
    members = members_of(described, options)
    return members, join(members)


def reason(*described: Described, options: Options | None = None) -> Reason:
    members, boxes = joined(*described, options=options)
    found = why(members, boxes, 0, 1)
    assert found is not None
    return found


def test_variables_of_following_times_are_joined() -> None:
    _, boxes = joined(tas([31.0, 32.0]), tas([0.0, 1.0]))
    assert (boxes.shape[:, 0].tolist(), boxes.position[:, 0].tolist()) == ([2], [1, 0])


@pytest.mark.parametrize("name", ["unknown", "Unknown", "none", "n/a", ""])
def test_a_standard_name_that_says_that_there_is_none_joins_nothing(name: str) -> None:
    parts = [tas([0.0, 1.0], standard_name=name, long_name="a"), tas([31.0], standard_name=name, long_name="b")]
    assert reason(*parts).rule == "problem"
    assert "it has no standard name" in str(reason(*parts))
    relaxed = Options(relaxed_identities=True)
    parts = [tas([t], relaxed, standard_name=name, long_name=word) for word in "ab" for t in (0.0, 31.0)]
    _, boxes = joined(*parts, options=relaxed)
    assert boxes.shape[:, 0].tolist() == [2, 2]


def test_parameters_of_grib_are_told_apart_by_their_number() -> None:
    said = {"standard_name": "unknown"}
    parts = [tas([t], **said, GRIB_paramId=np.int64(code)) for code in (167, 168) for t in (0.0, 31.0)]
    _, boxes = joined(*parts)
    assert boxes.shape[:, 0].tolist() == [2, 2]
    assert reason(*(tas([t], **said, GRIB_paramId=np.int64(0)) for t in (0.0, 31.0))).rule == "problem"


def test_a_standard_name_counts_more_than_the_number_of_a_parameter() -> None:
    _, boxes = joined(tas([0.0], GRIB_paramId=np.int64(130)), tas([31.0]))
    assert boxes.shape[:, 0].tolist() == [2]


def test_variables_of_times_and_latitudes_are_joined_along_both() -> None:
    parts = [tas([t], latitude=y) for t in (0.0, 1.0, 2.0) for y in ([10.0, 20.0], [30.0, 40.0])]
    _, boxes = joined(*parts)
    assert boxes.shape.tolist() == [[3, 2]]


def test_units_that_only_look_like_a_reference_time_are_no_times_of_a_file_described_before() -> None:
    for order in (("days", "furlongs"), ("furlongs", "days")):
        roots = []
        for unit in order:
            root = Group()
            add(root, "time", ("time",), np.arange(2.0), standard_name="time", units=f"{unit} since 2000-01-01")
            add(root, "tas", ("time",), np.zeros(2), **TAS)
            roots.append(described(root))
        assert reason(*roots).what == "axes"


def test_reference_times_of_other_origins_and_units_are_compared_by_their_instants() -> None:
    other = tas([24.0 * 31], time={"units": "hours since 2000-01-01"})
    _, boxes = joined(tas([0.0]), other, tas([-335.0], time={"units": "days since 2001-01-01"}))
    # 31 January, and 31 January: of these two there is one too many, and neither says which.
    assert len(boxes) == 3
    same = members_of([tas([31.0]), other]).axes[0].points
    assert same is not None
    assert same.point.tolist() == [0, 0]


def test_the_standard_calendar_has_two_names() -> None:
    calendars = [tas([float(i)], time={"calendar": c}) for i, c in enumerate(("standard", "gregorian"))]
    assert len(joined(*calendars)[1]) == 1


def test_decreasing_coordinates_are_taken_in_one_direction() -> None:
    up, down = tas([0.0], latitude=[10.0, 20.0]), tas([1.0], latitude=[20.0, 10.0])
    assert len(joined(up, down)[1]) == 1


def test_the_order_of_bounds_says_nothing() -> None:
    one, other = tas([1.0], bounds=[[0.5, 1.5]]), tas([1.0], bounds=[[1.5, 0.5]], latitude=[30.0, 40.0])
    assert joined(one, other)[1].shape.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"standard_name": "surface_temperature"}, "identity"),
        ({"units": "m"}, "units"),
        ({"cell_methods": "time: mean"}, "cell methods"),
        ({"time": {"calendar": "360_day"}}, "axes"),
        ({"bounds": [[0.5, 1.5]]}, "axes"),
        ({"flag_values": np.array([1, 2])}, "flag_values"),
    ],
)
def test_what_differs_in_structure_is_named(change: dict[str, Any], what: str) -> None:
    assert (reason(tas([0.0]), tas([1.0], **change)).rule, reason(tas([0.0]), tas([1.0], **change)).what) == (
        "signature",
        what,
    )


def test_units_that_convert_are_no_difference() -> None:
    assert len(joined(tas([0.0]), tas([1.0], units="degC"))[1]) == 1


def test_a_date_that_the_other_calendar_lacks_is_no_error() -> None:
    found = reason(tas([29.0], time={"calendar": "360_day"}), tas([30.0], time={"calendar": "standard"}))
    assert (found.rule, found.what) == ("signature", "axes")


@pytest.mark.parametrize("units", ["flocks", "days since the flood"])
def test_units_that_nobody_knows_are_compared_as_they_are(units: str) -> None:
    calendar = {"units": units, "calendar": "lunar"}
    assert len(joined(tas([0.0], time=calendar), tas([1.0], time=calendar))[1]) == 1
    assert reason(tas([0.0], time=calendar), tas([1.0], time={**calendar, "units": "sheep"})).what == "axes"


def test_ancillary_variables_and_measures_of_cells_have_to_be_equal() -> None:
    def measured(time: float, area: float) -> Described:
        of = {"standard_name": "cell_area", "units": "m2"}
        others = {"area": (("lat",), np.full(2, area), of), "flags": (("lat",), np.ones(2, "i4"), {})}
        return tas([time], cell_measures="area: area", ancillary_variables="flags gone", others=others)

    assert len(joined(measured(0, 1.0), measured(1, 1.0))[1]) == 1
    assert reason(measured(0, 1.0), measured(1, 2.0)).what == "cell_area"


def test_a_variable_without_an_identity_joins_nothing() -> None:
    found = reason(tas([0.0], standard_name=""), tas([1.0], standard_name=""))
    assert (found.what, found.a) == ("problem", "it has no standard name")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("time: mean (interval: 1 hr)", "time:  MEAN (interval: 60 minutes comment: of what was there)"),
        ("time: mean (of all)", "time: mean"),
        (
            "lat: time: mean (interval: 1 degree_N interval: 1 d)",
            "time: latitude: mean (interval: 24 h interval: 1 degree)",
        ),
        ("lat: time: mean (interval: 1 day)", "lat: time: mean (interval: 1 day interval: 86400 s)"),
        ("time: mean (interval: 2 flocks)", "time: mean (interval: 2.0 flocks)"),
        (f"time: mean (interval: 1.{'0' * 5000} s)", "time: mean (interval: 1 s)"),
        ("time: mean (interval: 1e999999999 s)", "time: mean (interval: 1e999999999 s)"),
        ("time: maximum within days time: mean over days", "time: maximum  within days time: mean over days"),
        ("lat: mean where land over sea", "latitude: mean where land over sea"),
    ],
)  # fmt: skip
def test_cell_methods_are_compared_by_what_they_mean(one: str, other: str) -> None:
    assert len(joined(tas([0.0], cell_methods=one), tas([1.0], cell_methods=other))[1]) == 1


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("time: mean (interval: 1 hr)", "time: mean (interval: 2 hr)", "time: mean (interval: 3600 s)"),
        ("time: mean (interval: 1 hr)", "time: mean", "time: mean (interval: 3600 s)"),
        ("time: mean within days", "time: mean within years", "time: mean within days"),
        ("time: mean where land", "time: mean where sea", "time: mean where land"),
        ("time: mean where land over sea", "time: mean where land", "time: mean where land over sea"),
        ("time: mean (interval: 2 flocks)", "time: mean (interval: 3 flocks)", "time: mean (interval: 2 flocks)"),
        ("time: anomaly_wrt one", "time: anomaly_wrt other", "time: anomaly_wrt one"),
    ],
)
def test_cell_methods_of_other_meaning_keep_apart(one: str, other: str, said: str) -> None:
    found = reason(tas([0.0], cell_methods=one), tas([1.0], cell_methods=other))
    assert (found.rule, found.what, found.a) == ("signature", "cell methods", said)


def test_areas_and_norms_are_known_whatever_their_variables_are_called() -> None:
    def anomaly(time: float, norm: str, area: str) -> Described:
        others = {
            norm: (("lat",), np.ones(2), {**TAS, "standard_name": "air_temperature reference"}),
            area: ((), "land", {"standard_name": "area_type"}),
        }
        said = f"lat: mean where {area} time: anomaly_wrt {norm}"
        return tas([time], cell_methods=said, ancillary_variables=norm, coordinates=area, others=others)

    assert len(joined(anomaly(0, "norm", "kind"), anomaly(1, "mean_state", "type"))[1]) == 1


def test_cell_methods_of_a_scalar_coordinate_are_those_of_its_axis() -> None:
    def at(name: str, height: float) -> Described:
        others = {name: ((), np.array(height), {"standard_name": "height", "units": "m"})}
        return tas([0.0], cell_methods=f"{name}: mean", coordinates=name, others=others)

    assert len(joined(at("z", 2.0), at("height", 10.0))[1]) == 1


def test_times_that_overlap_are_not_joined() -> None:
    found = reason(tas([0.0, 2.0]), tas([1.0, 3.0]))
    assert (found.rule, found.what, found.a, found.b) == ("overlap", "time", (0.0, 2.0), (1.0, 3.0))


def test_other_latitudes_and_times_are_named() -> None:
    found = reason(tas([0.0]), tas([1.0], latitude=[30.0, 40.0]))
    assert (found.rule, found.what) == ("axes", "time, latitude")


def test_grid_mappings_are_compared_by_their_parameters() -> None:
    def mapped(time: float, name: str, radius: float) -> Described:
        crs = {name: ((), 0, {"grid_mapping_name": "latitude_longitude", "earth_radius": np.array([radius])})}
        return tas([time], grid_mapping=name, others=crs)

    assert len(joined(mapped(0, "crs", 6.4e6), mapped(1, "other", 6.4e6))[1]) == 1
    assert reason(mapped(0, "crs", 6.4e6), mapped(1, "crs", 6.3e6)).what == "grid mapping"


def on_grid(time: float, form: str, mapping: str = "lambert_conformal_conic", **others: Any) -> Described:
    crs = {"grid_mapping_name": mapping, "earth_radius": np.array([6.4e6])}
    made: dict[str, Any] = {"crs": ((), 0, crs), "geo": ((), 0, crs | {"grid_mapping_name": "latitude_longitude"})}
    for d, name in (("x", "lat"), ("y", "lon")):
        made[d] = ((d,), np.arange(2.0), {"standard_name": f"projection_{d}_coordinate", "units": "m"})
        place = LATITUDE if name == "lat" else LONGITUDE
        made[name] = (("y", "x"), np.ones((2, 2)), place)
    made |= others
    root = Group()
    add(root, "time", ("time",), [time], **TIME)
    for name, (dims, values, said) in made.items():
        add(root, name, dims, values, **said)
    add(root, "tas", ("time", "y", "x"), np.zeros((1, 2, 2), "f4"), **TAS, grid_mapping=form, coordinates="lat lon")
    return described(root)


@pytest.mark.parametrize(
    ("form", "other", "said"),
    [
        ("wkt: x y", "wkt: y x", "projection_y_coordinate, projection_x_coordinate"),
        ("wkt: x y", "wkt", "no coordinates named"),
        ("wkt: x y", "wkt: x y", None),
        ("wkt", "wkt", None),
    ],
)
def test_the_order_of_coordinates_counts_for_well_known_text(form: str, other: str, said: str | None) -> None:
    crs = {"grid_mapping_name": "lambert_conformal_conic", "crs_wkt": 'PROJCRS["a",AXIS["x",east],AXIS["y",north]]'}
    members = [on_grid(k, one, wkt=((), 0, crs)) for k, one in enumerate((form, other))]
    if said is None:
        assert len(joined(*members)[1]) == 1
        return
    found = reason(*members)
    assert (found.what, found.a, found.b) == (
        "grid mapping",
        "projection_x_coordinate, projection_y_coordinate",
        said,
    )


@pytest.mark.parametrize(("short", "form"), [("crs", "crs: x y"), ("crs", "crs: y x"), ("geo", "geo: lat lon")])
def test_a_grid_mapping_alone_is_of_the_coordinates_of_its_projection(short: str, form: str) -> None:
    assert len(joined(on_grid(0, short), on_grid(1, form))[1]) == 1


@pytest.mark.parametrize(
    ("form", "mapping", "one", "other"),
    [
        ("crs: lat lon", "lambert_conformal_conic", "projection_x_coordinate, projection_y_coordinate",
         "latitude, longitude"),
        ("crs: x y lat lon", "lambert_conformal_conic", "projection_x_coordinate, projection_y_coordinate",
         "latitude, longitude, projection_x_coordinate, projection_y_coordinate"),
        ("crs: x y geo: lat lon", "lambert_conformal_conic", "1 of them", "2 of them"),
        ("crs: x y", "nobody_knows", "no coordinates named", "projection_x_coordinate, projection_y_coordinate"),
        ("crs: x y", "rotated_latitude_longitude", "no coordinates named",
         "projection_x_coordinate, projection_y_coordinate"),
    ],
    ids=["others", "more", "another mapping", "unknown", "of other coordinates"],
)  # fmt: skip
def test_grid_mappings_of_other_coordinates_keep_apart_and_are_named(
    form: str, mapping: str, one: str, other: str
) -> None:
    found = reason(on_grid(0, "crs", mapping), on_grid(1, form, mapping))
    assert (found.rule, found.what, found.a, found.b) == ("signature", "grid mapping", one, other)


def test_coordinates_of_other_dimensions_have_to_be_equal() -> None:
    def with_names(time: float, height: list[float]) -> Described:
        of = {"standard_name": "surface_altitude", "units": "m"}
        return tas([time], coordinates="z", others={"z": (("lat",), np.array(height), of)})

    assert len(joined(with_names(0, [1.0, 2.0]), with_names(1, [1.0, 2.0]))[1]) == 1
    found = reason(with_names(0, [1.0, 2.0]), with_names(1, [1.0, 3.0]))
    assert (found.rule, found.what) == ("part", "surface_altitude")
    assert str(found) == "surface_altitude differs, which does not span time: 2.0 and 3.0"


def test_coordinates_that_span_the_axis_may_differ() -> None:
    def varying(time: float, height: float) -> Described:
        of = {"standard_name": "surface_altitude", "units": "m"}
        return tas([time], coordinates="z", others={"z": (("time", "lat"), np.full((1, 2), height), of)})

    parts = [varying(0, 1.0), varying(1, 2.0)]
    _, boxes = joined(*parts)
    assert len(boxes) == 1


def test_coordinates_that_span_several_axes_are_compared_place_by_place() -> None:
    def at(member: int, time: float, height: float) -> Described:
        others = {
            "z": (("time", "lat"), np.array([[height]]), {"standard_name": "surface_altitude", "units": "m"}),
            "member": ((), np.array(member), {"standard_name": "realization", "units": "1"}),
        }
        return tas([time], latitude=[10.0], coordinates="z member", others=others)

    first = [at(0, 0, 1.0), at(0, 1, 2.0)]
    assert joined(*first, at(1, 0, 1.0), at(1, 1, 2.0))[1].box.tolist() == [0, 0, 0, 0]
    assert joined(*first, at(1, 0, 2.0), at(1, 1, 1.0))[1].box.tolist() == [0, 0, 1, 1]


def test_scalar_coordinates_are_axes() -> None:
    def at(height: float) -> Described:
        of = {"standard_name": "height", "units": "m"}
        return tas([0.0], coordinates="z", others={"z": ((), height, of)})

    members, boxes = joined(at(10.0), at(2.0))
    assert [axis.name for axis in members.axes] == ["time", "latitude", "height"]
    assert (boxes.shape.tolist(), boxes.position[:, 2].tolist()) == ([[1, 1, 2]], [1, 0])


def test_dimensions_without_an_identity_join_nothing() -> None:
    nameless = [tas([float(t)], time={"standard_name": "", "units": "1"}) for t in (0, 1)]
    found = reason(*nameless)
    assert (found.what, found.a) == ("problem", "its dimension 'time' has no coordinate with a standard name")
    relaxed = Options(relaxed_identities=True)
    again = [tas([float(t)], relaxed, time={"standard_name": "", "units": "1"}) for t in (0, 1)]
    assert len(joined(*again, options=relaxed)[1]) == 1


def test_coordinates_that_are_not_there_are_the_same_or_keep_files_apart() -> None:
    assert len(joined(tas([0.0], coordinates="gone lost"), tas([1.0], coordinates="lost gone"))[1]) == 1
    found = reason(tas([0.0], coordinates="gone"), tas([1.0]))
    assert (found.rule, found.what, found.a, found.b) == (
        "signature",
        "coordinates that do not exist",
        "gone",
        "none",
    )
    assert found.remedy == "add them, or take their names out of the attribute coordinates"


def test_the_order_in_which_coordinates_are_named_does_not_matter() -> None:
    def at(time: float, named: str) -> Described:
        root = Group()
        add(root, "time", ("time",), [time], **TIME)
        add(root, "lat", ("node",), [1.0, 2.0], **LATITUDE)
        add(root, "lon", ("node",), [5.0, 7.0], **LONGITUDE)
        add(root, "tas", ("time", "node"), [[3.0, 4.0]], **TAS, coordinates=named)
        return described(root)

    assert len(joined(at(0, "lat lon"), at(1, "lon lat"))[1]) == 1


def test_attributes_have_to_be_equal_or_there_where_that_is_asked_for() -> None:
    for options, what in (
        (Options(equal=("source",)), "source"),
        (Options(exist=("source",)), "source exists"),
        (Options(respect_valid=True), "valid_min"),
    ):
        one = tas([0.0], options, source="a", valid_min=np.array([1.0]))
        other = tas(
            [1.0], options, **({} if what == "source exists" else {"source": "b", "valid_min": np.array([2.0])})
        )
        assert reason(one, other).what == what
        assert len(joined(tas([0.0], source="a"), tas([1.0]))[1]) == 1


def test_latitudes_are_equal_within_the_tolerance_alone() -> None:
    parts = [tas([float(t)], latitude=[10.0, 20.0 * (1 + 1e-9 * t)]) for t in (0, 1)]
    assert len(joined(*parts)[1]) == 2
    assert len(joined(*parts, options=Options(rtol=1e-8))[1]) == 1


def test_close_values_are_equal_on_both_sides_of_any_edge() -> None:
    edges = [np.array([x + d]) for x in (0.5, 1.0, 1024.0) for d in (-1e-13, 1e-13)]
    assert equal_arrays(edges, 1e-12, 0.0).tolist() == [0, 0, 2, 2, 4, 4]


def test_arrays_are_equal_column_by_column() -> None:
    rows = [
        np.array(r) for r in ([1.0, 5.0], [1.0 + 1e-13, 3.0], [1.0, 5.0 + 1e-13], [1.0], [np.nan, 5.0], [np.nan, 5.0])
    ]
    assert equal_arrays(rows, 1e-12, 0.0).tolist() == [0, 1, 0, 3, 4, 4]


def test_integers_and_texts_are_equal_exactly() -> None:
    values = [np.array([2**60]), np.array([2**60 + 1]), np.array(["a"], object), np.array(["a"], object)]
    assert equal_arrays(values, 1e-3, 1.0).tolist() == [0, 1, 2, 2]


def test_numbers_are_equal_whatever_their_types() -> None:
    values = [np.array([5, 6], dtype) for dtype in ("i2", "i4", "u1", "f4", "f8", "i8")]
    assert equal_arrays(values[:3], 0, 0).tolist() == [0, 0, 0]
    assert equal_arrays(values, 0, 0).tolist() == [0] * 6
    most = [np.array([v], dtype) for v, dtype in ((2**63, "u8"), (2**63 - 1, "i8"), (-(2**63), "i8"), (2.0**63, "f8"))]
    assert equal_arrays(most, 0, 0).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("where", ["variable", "coordinate"])
def test_without_units_nothing_is_joined_unless_that_is_allowed(where: str) -> None:
    def made(times: list[float], options: Options) -> Described:
        if where == "variable":
            return tas(times, options, units=None)
        return tas(times, options, time={"units": None})

    for relaxed in (False, True):
        options = Options(relaxed_units=relaxed)
        parts = [made([0.0, 1.0], options), made([2.0, 3.0], options)]
        _, boxes = joined(*parts, options=options)
        assert len(boxes) == (1 if relaxed else 2)
    said = str(reason(made([0.0], Options()), made([2.0], Options())))
    assert ("'air_temperature' has no units" if where == "variable" else "'time' has no units") in said


def test_flags_need_no_units() -> None:
    flags = {"units": None, "flag_values": np.int8([0, 1]), "flag_meanings": "good bad"}
    assert len(joined(tas([0.0], **flags), tas([1.0], **flags))[1]) == 1
    assert len(joined(tas([0.0], **flags), tas([1.0], **{**flags, "flag_meanings": "bad good"}))[1]) == 2


@pytest.mark.parametrize("turned", [False, True])
def test_cells_of_variables_are_compared_in_the_units_of_the_first(turned: bool) -> None:
    hours = {"units": "hours since 2000-01-01"}
    late = np.array([[24.0, 48.0], [48.0, 72.0]])
    late = late[::-1, ::-1] if turned else late
    one = tas([0.5], bounds=np.array([[0.0, 1.0]]))
    other = tas([60.0, 36.0] if turned else [36.0, 60.0], time=hours, bounds=late)
    far = tas([84.0], time=hours, bounds=np.array([[80.0, 96.0]]))
    options = Options(contiguous=True, overlap=False)
    members = members_of([one, other], options)
    assert len(join(members, options)) == 1
    members = members_of([one, other, far], options)
    boxes = join(members, options)
    assert len(boxes) == 3
    found = why(members, boxes, 1, 2, options)
    assert found is not None
    assert (found.rule, found.what, found.a, found.b) == ("gap", "time", (1.0, 3.0), pytest.approx((80 / 24, 4.0)))


def test_odd_and_even_times_are_joined_where_that_is_asked_for() -> None:
    parts = [tas([0.0, 2.0, 4.0]), tas([1.0, 3.0]), tas([2.5, 4.5])]
    options = Options(interleave=True)
    members = members_of(parts, options)
    assert join(members, options).position[:, 0].tolist() == [0, 1, 2]
    assert len(join(members)) == 3
    hours = {"units": "hours since 2000-01-01"}
    members = members_of([*parts, tas([96.0, 240.0], time=hours)], options)
    assert len(join(members, options)) == 4  # four days are in the first, too


def test_positions_count_coordinates_in_the_direction_of_the_first_member() -> None:
    parts = [tas([1.0, 2.0, 3.0], latitude=[20.0, 10.0]), tas([0.0], latitude=[10.0, 20.0])]
    boxes = joined(*parts)[1]
    assert boxes.start.tolist() == [[1, 0], [0, 0]]
    assert boxes.count.tolist() == [[3, 2], [1, 2]]
    assert (boxes.extent.tolist(), boxes.descending.tolist()) == ([[4, 2]], [[False, True]])
    assert boxes.flipped.tolist() == [[False, False], [False, True]]


def test_data_variables_of_a_file_are_those_that_nothing_refers_to() -> None:
    root = Group()
    add(root, "time", ("time",), np.arange(2.0), **TIME, bounds="time_bnds")
    add(root, "time_bnds", ("time", "bnds"), np.zeros((2, 2)))
    add(root, "area", (), 1.0, standard_name="cell_area", units="m2")
    add(root, "tas", ("time",), np.zeros(2), **TAS, cell_measures="area: area")
    add(root, "pr", ("time",), np.zeros(2), standard_name="precipitation_flux", units="kg m-2 s-1")
    found = describe_all(Dataset("a.nc", "netcdf", root))
    assert [d.stated.name for d in found] == ["tas", "pr"]
