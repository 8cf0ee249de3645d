"""The page of a report, looked at in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import pytest

from cfagg.aggregation.report import Report, explain
from cfagg.aggregation.scanning import Scanner
from tests.aggregation.months import month, months
from tests.checking.browser import Browser, program


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Two arrays of one quantity in other units, one with a gap; a file that overlaps; one that cannot be read."""
    folder = tmp_path_factory.mktemp("page")
    months(folder, 4)
    month(folder / "m8.nc", 8)
    for number in (2, 3):
        with netCDF4.Dataset(month(folder / f"<b>{number}.nc", number), "a") as file:
            file["tas"].units = "m"
    (folder / "z.nc").write_bytes(b"nothing")
    return explain(folder, Scanner(skip_errors=True))


def test_the_page_names_all_and_loads_nothing(report: Report) -> None:
    page = report.to_html()
    assert page.startswith("<!DOCTYPE html>")
    assert "default-src 'none'" in page
    for word in ("they differ in units: m and K", "z.nc", "1 gap", "&lt;b&gt;2.nc"):
        assert word in page
    for word in ("<script", "<b>2.nc", "http://", "https://", "url("):
        assert word not in page.replace("http://www.w3.org/2000/svg", "")


def test_the_directory_of_all_files_is_named_once(report: Report) -> None:
    page = report.to_html()
    folder = str(Path(report.unread[0].file).parent)
    assert page.count(folder) == 1
    assert f"files in {folder}</p>" in page
    assert '<div class="file">m8.nc</div>' in page


def test_files_of_several_places_are_named_in_full(tmp_path: Path) -> None:
    files = [month(tmp_path / "a" / "m0.nc", 0), month(tmp_path / "ab" / "m1.nc", 4, days=3)]
    page = explain(list(map(str, files))).to_html()
    assert f"files in {tmp_path}</p>" in page
    assert '<div class="file">ab/m1.nc</div>' in page


def test_bars_have_a_rectangle_for_each_stretch_without_a_gap(report: Report) -> None:
    bars = report.to_html().split('<svg class="bar"')[1:]
    assert [bar.partition("</svg>")[0].count("<rect") for bar in bars] == [1, 2]


def test_arrays_that_overlap_are_marked(tmp_path: Path) -> None:
    months(tmp_path, 3)
    month(tmp_path / "x.nc", 1, days=3)
    page = explain(tmp_path).to_html()
    assert 'class="over"' in page
    assert "overlap" in page


def test_dates_of_other_units_and_calendars_have_one_scale(tmp_path: Path) -> None:
    months(tmp_path, 2)
    with netCDF4.Dataset(month(tmp_path / "z.nc", 0), "a") as file:
        time = file["time"]
        time.units, time.calendar = "hours since 1999-01-01", "360_day"
        time[:] = [24 * 360, 24 * 361]
    bars = explain(tmp_path).to_html().partition("along time")[2].split('<svg class="bar"')[1:3]
    begin, end = (float(re.search(r' x="([0-9.]+)"', bar)[1]) for bar in bars)
    assert max(begin, end) < 20  # of 1000: both begin with the year 2000


def test_coordinates_of_one_name_in_other_units_have_a_scale_each(tmp_path: Path) -> None:
    for number, units in enumerate(("m", "hPa")):
        path = month(tmp_path / f"{units}.nc", number)
        with netCDF4.Dataset(path, "a") as file:
            file["lat"].units, file["lat"].standard_name = units, "atmosphere_hybrid_height_coordinate"
            file["lat"][:] = [1, 2] if number else [10, 20]
    page = explain(tmp_path).to_html()
    assert page.count("along atmosphere_hybrid_height_coordinate") == 2


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if program() is None:
        pytest.skip("no browser is installed")
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.few(1)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1100])
def test_a_browser_shows_it_in_any_width_and_theme(
    browser: Browser, report: Report, tmp_path: Path, scheme: str, width: int
) -> None:
    (tmp_path / "page.html").write_text(report.to_html(), encoding="utf-8")
    browser.size(width, 900)
    browser.scheme(scheme)
    browser.open(tmp_path / "page.html")
    assert browser.run("document.documentElement.scrollWidth") == width
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(13, 17, 23)")
    wide = "Array.from(document.querySelectorAll('svg.bar')).map(e => e.getBoundingClientRect().width)"
    assert min(browser.run(wide)) > 0.4 * width
    assert not [e for e in browser.events if e.get("method") == "Log.entryAdded"]
