"""Pictures of results: what is drawn where, and what is refused."""

import warnings
from contextlib import contextmanager

import cftime
import matplotlib.image as mpl_image
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from cfagg.cf.dimension_kinds import dated, grid, kinds
from cfagg.display import date_axis, field, field_axes, field_sections, picture
from cfagg.errors import UnsupportedError

LAT = xr.Variable("lat", np.arange(-85.0, 90, 10), {"units": "degrees_north"})
LON = xr.Variable("lon", np.arange(5.0, 360, 10), {"units": "degrees_east"})


def save(array, path, **texts):
    shown = dated(array)
    field.save(shown, path, kinds(shown), grid(shown), **texts)


def world(**attrs):
    values = 280 + np.zeros((LAT.size, LON.size)) + np.cos(np.deg2rad(LAT.values))[:, None]
    attrs = {"units": "K", "long_name": "temperature", **attrs}
    return xr.DataArray(values, dims=("lat", "lon"), coords={"lat": LAT, "lon": LON}, name="tas", attrs=attrs)


@pytest.fixture
def drawn(monkeypatch):
    """The figures as they are when they are written."""
    figures = []
    real = picture.figure

    @contextmanager
    def watched(*args):
        with real(*args) as figure:
            figures.append(figure)
            yield figure

    monkeypatch.setattr(picture, "figure", watched)
    return figures


def texts(figure):
    figure.canvas.draw()
    found = [t.get_text() for t in figure.texts]
    for axes in figure.axes:
        found += [axes.get_title(), axes.get_xlabel(), axes.get_ylabel()]
        found += [t.get_text() for t in axes.get_xticklabels() + axes.get_yticklabels()]
    return [t for t in found if t]


@pytest.mark.few(1)
@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_name_tells_the_kind(tmp_path, kind, start):
    save(world(), tmp_path / f"p.{kind.upper()}")
    assert (tmp_path / f"p.{kind.upper()}").read_bytes().startswith(start)


def test_a_map_has_degrees_on_its_axes_and_units_on_its_colours(tmp_path, drawn):
    save(world().T, tmp_path / "p.png", title="temperature, mean over time", subtitle="1990 to 1999")
    found = texts(drawn[0])
    assert {"temperature, mean over time", "1990 to 1999", "temperature (K)"} <= set(found)
    assert {"60°N", "30°S", "0°", "60°E", "120°W", "180°"} <= set(found)
    axes = drawn[0].axes[0]
    assert axes.get_ylim() == (-90, 90)
    assert axes.get_xlim() == (0, 360)


def test_a_map_puts_values_where_they_belong(tmp_path):
    array = world().copy(data=np.full((LAT.size, LON.size), 1.0))
    array[-1, 0] = 2.0  # the upper left corner, although latitudes rise
    save(array, tmp_path / "p.png")
    pixels = (mpl_image.imread(tmp_path / "p.png")[..., :3] * 255).round().astype(int)
    yellow = np.argwhere((np.abs(pixels - (253, 231, 37)) < 3).all(-1))
    inside = yellow[yellow[:, 1] < 0.8 * pixels.shape[1]]  # what is further right is the bar of colours
    assert len(inside)
    assert inside[:, 0].max() < 0.3 * pixels.shape[0]
    assert inside[:, 1].max() < 0.3 * pixels.shape[1]


def test_missing_values_are_grey(tmp_path):
    save(world().where(LAT > 0), tmp_path / "p.png")
    pixels = (mpl_image.imread(tmp_path / "p.png")[..., :3] * 255).round().astype(int)
    assert (pixels == (230, 232, 235)).all(-1).mean() > 0.2


def test_values_on_both_sides_of_zero_have_two_sided_colours(tmp_path, drawn):
    save(world() - 280.5, tmp_path / "p.png")
    mesh = drawn[0].axes[0].collections[0]
    assert mesh.norm.vmin == -mesh.norm.vmax


def test_nothing_but_missing_values_is_said_so(tmp_path, drawn):
    save(world() * np.nan, tmp_path / "p.png")
    save(world().isel(lat=0) * np.nan, tmp_path / "q.png")
    assert all("no values" in [t.get_text() for t in f.axes[0].texts] for f in drawn)


def test_constant_values_can_be_drawn(tmp_path, drawn):
    save(world() * 0 + 5, tmp_path / "p.png")
    assert drawn[0].axes[0].collections[0].norm.vmin < 5 < drawn[0].axes[0].collections[0].norm.vmax


@pytest.mark.parametrize("use_cftime", [False, True])
def test_a_series_has_dates_on_its_axis(tmp_path, drawn, use_cftime):
    time = xr.date_range("1950-01-01", periods=1200, freq="MS", use_cftime=use_cftime)
    series = xr.DataArray(np.arange(1200.0), dims="time", coords={"time": time}, attrs={"units": "mm"}, name="pr")
    save(series, tmp_path / "p.png")
    assert {"1960", "2000", "2040", "pr (mm)"} <= set(texts(drawn[0]))


@pytest.mark.few(1)
@pytest.mark.parametrize("calendar", ["360_day", "standard"])
@pytest.mark.parametrize(
    ("periods", "freq", "expected"),
    [(9, "MS", "2001-03"), (20, "D", "2001-01-11"), (9, "h", "2001-01-01 06:00"), (1, "h", "2001-01-01 00:00")],
)
def test_short_series_have_months_days_and_hours(tmp_path, drawn, periods, freq, expected, calendar):
    time = xr.date_range("2001-01-01", periods=periods, freq=freq, calendar=calendar, use_cftime=calendar != "standard")
    save(xr.DataArray(np.arange(1.0 * periods), dims="time", coords={"time": time}), tmp_path / "p.png")
    assert expected in texts(drawn[0])


def test_dates_of_all_calendars_become_days():
    dates = np.array(
        [cftime.datetime(2000, 2, 30, calendar="360_day"), cftime.datetime(2000, 3, 1, calendar="360_day")]
    )
    assert np.diff(date_axis.numbers(dates)) == 1
    assert np.isnan(date_axis.numbers(np.array(["NaT"], "M8[ns]"))).all()


@pytest.mark.filterwarnings("ignore:this date/calendar")
@pytest.mark.parametrize(("calendar", "first"), [("standard", -3), ("julian", -3), ("noleap", -2)])
def test_years_before_the_first_are_those_of_the_calendar(calendar, first):
    dates = np.array([cftime.datetime(year, 1, 1, calendar=calendar) for year in (first, 4)], object)
    figure = Figure()
    axes = figure.add_axes((0.1, 0.1, 0.8, 0.8))
    with warnings.catch_warnings(action="error"):
        places = date_axis.numbers(dates)
        axes.set_xlim(*places)
        date_axis.label(axes, "x", dates)
    ticks = dict(zip([tick.get_text() for tick in axes.get_xticklabels()], axes.get_xticks(), strict=True))
    assert (ticks[f"{first:04d}"], ticks["0004"]) == tuple(places)
    assert ("0000" in ticks) == (calendar == "noleap")


def test_a_value_between_gaps_is_a_point(tmp_path, drawn):
    values = np.arange(100.0)
    values[10:20] = values[21:30] = np.nan
    save(xr.DataArray(values, dims="time"), tmp_path / "p.png")
    points = drawn[0].axes[0].lines[1].get_xydata()
    assert points.tolist() == [[20.0, 20.0]]


def test_seasons_stand_in_the_order_of_the_year(tmp_path, drawn):
    seasons = xr.DataArray([1.0, 3, 2, 4], dims="season", coords={"season": ["DJF", "JJA", "MAM", "SON"]})
    save(seasons, tmp_path / "p.png")
    assert drawn[0].axes[0].lines[0].get_ydata().tolist() == [1, 2, 3, 4]
    assert [t.get_text() for t in drawn[0].axes[0].get_xticklabels()] == ["DJF", "MAM", "JJA", "SON"]


def test_months_have_names(tmp_path, drawn):
    save(xr.DataArray(np.arange(12.0), dims="month", coords={"month": range(1, 13)}), tmp_path / "p.png")
    assert {"Jan", "Dec"} <= set(texts(drawn[0]))


def test_a_profile_stands_upright_with_pressure_growing_downwards(tmp_path, drawn):
    plev = xr.Variable("plev", [1000.0, 500, 100, 10], {"units": "hPa"})
    save(xr.DataArray([1.0, 2, 3, 4], dims="plev", coords={"plev": plev}, name="ta"), tmp_path / "p.png")
    axes = drawn[0].axes[0]
    low, high = axes.get_ylim()
    assert low > high
    assert axes.get_yscale() == "log"
    assert axes.get_ylabel() == "plev (hPa)"
    assert axes.get_xlabel() == "ta"


def test_heights_grow_upwards_and_depths_downwards(tmp_path, drawn):
    for positive in ("up", "down"):
        z = xr.Variable("z", [0.0, 10, 20], {"units": "m", "positive": positive})
        save(xr.DataArray([1.0, 2, 3], dims="z", coords={"z": z}), tmp_path / "p.png")
    limits = [f.axes[0].get_ylim() for f in drawn]
    assert limits[0][0] < limits[0][1]
    assert limits[1][0] > limits[1][1]


@pytest.mark.parametrize(
    ("dims", "upright", "along"),
    [
        (("time", "lat"), "lat", "time"),
        (("lat", "plev"), "plev", "lat"),
        (("time", "lon"), "time", "lon"),
        (("member", "time"), "member", "time"),
        (("time", "plev"), "plev", "time"),
        (("a", "b"), "a", "b"),
    ],
)
def test_sections_put_height_and_latitude_upright(dims, upright, along):
    array = xr.DataArray(np.zeros((2, 3)), dims=dims)
    [(text, part)] = field_sections.panels(array, kinds(array), None)
    assert (text, part.dims) == ("", (upright, along))


def test_three_dimensions_are_panels_with_one_scale(tmp_path, drawn):
    months = xr.DataArray(np.arange(12.0), dims="month", coords={"month": range(1, 13)})
    save(world() + months, tmp_path / "p.png")
    *panels, bar = drawn[0].axes
    assert [a.get_title() for a in panels[:2]] == ["January", "February"]
    assert len(panels) == 12
    assert len({(a.collections[0].norm.vmin, a.collections[0].norm.vmax) for a in panels}) == 1
    assert bar.get_ylabel() == "temperature (K)"


def test_strange_names_are_drawn_as_they_are(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array = xr.DataArray([1.0, 2], dims="$x^{", name="$y_{", attrs={"units": "日本\x1b"})
        save(array.assign_coords({"$x^{": ["$a^{", "b"]}), tmp_path / "p.png", title="$x^{2", subtitle="$")
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_a_coordinate_that_goes_to_and_fro_counts_values(tmp_path, drawn):
    array = xr.DataArray(np.zeros((2, 3)), dims=("x", "y"), coords={"x": [1.0, 2.0], "y": [3.0, 1.0, 2.0]})
    save(array, tmp_path / "p.png")
    assert drawn[0].axes[0].get_xlabel() == "index along y"


def test_one_cell_can_be_drawn(tmp_path):
    save(world().isel(lat=[3], lon=[4]), tmp_path / "p.png")
    save(world().isel(lat=3, lon=[4]), tmp_path / "q.png")
    assert (tmp_path / "q.png").exists()


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (xr.DataArray(1.0, name="tas"), "'tas' cannot be drawn: it is a single value"),
        (xr.DataArray(np.zeros((1, 2, 1, 2)), dims=list("abcd")), "4 dimensions"),
        (xr.DataArray(np.zeros((3, 0)), dims=list("ab")), "empty"),
        (xr.DataArray(["a", "b"], dims="x"), "not numbers"),
        (xr.DataArray(np.zeros((13, 14, 15)), dims=("a", "b", "c")), "13 panels, one per a"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, array, why):
    with pytest.raises(UnsupportedError, match=why):
        save(array, tmp_path / "p.png")
    assert not list(tmp_path.iterdir())


def test_another_kind_is_refused(tmp_path):
    with pytest.raises(UnsupportedError, match=r"\.png, \.svg or \.pdf"):
        save(world(), tmp_path / "p.txt")


def test_a_style_of_the_user_does_not_change_the_picture(tmp_path):
    import matplotlib as mpl

    save(world(), tmp_path / "a.png")
    with mpl.rc_context({"font.size": 40, "figure.dpi": 30, "savefig.bbox": "tight", "axes.grid": True}):
        save(world(), tmp_path / "b.png")
    assert np.array_equal(mpl_image.imread(tmp_path / "a.png"), mpl_image.imread(tmp_path / "b.png"))


def test_cells_of_latitude_end_at_the_poles():
    assert field_axes.edges(np.array([-90.0, 0.0, 90.0]), "latitude").tolist() == [-90, -45, 45, 90]
    assert field_axes.edges(np.array([4.0]), "longitude").tolist() == [3.5, 4.5]


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (-90, 90, ["90°S", "60°S", "30°S", "0°", "30°N", "60°N", "90°N"]),
        (-5.3, 4.6, ["4°S", "2°S", "0°", "2°N", "4°N"]),
        (48.2, 51.7, ["49°N", "50°N", "51°N"]),
        (40.0, 41.0, ["40°N", "40.2°N", "40.4°N", "40.6°N", "40.8°N", "41°N"]),
    ],
)
def test_ticks_of_maps_stand_at_whole_degrees(low, high, shown):
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot()
    axes.set_ylim(low, high)
    field_axes.degree_ticks(axes.yaxis, "latitude")
    figure.canvas.draw()
    assert [t.get_text() for t in axes.get_yticklabels() if low - 1e-9 < t.get_position()[1] < high + 1e-9] == shown


def test_longitudes_go_on_across_the_dateline():
    lon = np.concatenate([np.arange(150.0, 180, 10), np.arange(-180.0, -149, 10)])
    array = xr.DataArray(np.zeros((2, 7)), coords={"lat": [0.0, 1.0], "lon": lon}, dims=("lat", "lon"))
    assert field_axes.positions(array, "lon", "longitude").tolist() == [150, 160, 170, 180, 190, 200, 210]


def test_longitudes_of_more_than_a_turn_are_drawn_by_their_index():
    lon = np.concatenate([np.arange(0.0, 360, 90), np.arange(0.0, 360, 90)])
    array = xr.DataArray(np.zeros(8), coords={"lon": lon}, dims="lon")
    assert field_axes.positions(array, "lon", "longitude").tolist() == list(range(8))


def test_dates_in_an_auxiliary_coordinate_label_the_axis(tmp_path, drawn):
    times = np.arange("2000-01", "2001-01", dtype="M8[M]").astype("M8[ns]")
    array = xr.DataArray(np.arange(12.0), coords={"valid_time": ("step", times)}, dims="step", name="tas")
    save(array, tmp_path / "p.png")
    assert not [t for t in texts(drawn[0]) if "index" in t]
    assert any("2000" in t for t in texts(drawn[0]))
