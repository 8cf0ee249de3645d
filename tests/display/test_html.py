import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

import cfagg
from cfagg.api.notebook import aggregation_html
from cfagg.demo import sample
from cfagg.display.matrix import draw
from cfagg.display.svg import svg
from tests.display import arrays

EVIL = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'&.nc"
ELEMENTS = {
    "div", "style", "span", "svg", "polygon", "polyline", "text", "title", "details", "summary", "table", "tr", "th",
    "td",
}  # fmt: skip
ATTRIBUTES = {
    "class", "xmlns", "width", "height", "viewbox", "role", "aria-label", "fill", "points", "x", "y", "font-size",
    "text-anchor", "font-weight", "transform", "colspan",
}  # fmt: skip


class Elements(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.names, self.attributes, self.open, self.data = set(), set(), [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.data.append(data)


@pytest.mark.parametrize("place", ["file", "attribute", "name", "dimension"])
def test_names_are_escaped_wherever_they_stand(place):
    from dataclasses import replace

    aggregation = arrays.series(2, names=[EVIL, "b.nc"]) if place == "file" else arrays.series(2)
    if place == "attribute":
        aggregation = replace(aggregation, attributes={EVIL: EVIL, "long_name": EVIL}, units=EVIL)
    if place == "name":
        aggregation = replace(aggregation, name=EVIL)
    if place == "dimension":
        aggregation = replace(aggregation, dims=(EVIL, "lat", "lon"))
    page = Elements(aggregation_html(aggregation))
    assert page.names <= ELEMENTS
    assert page.attributes <= ATTRIBUTES
    assert page.open == []
    assert "alert(1)" in "".join(page.data)


def test_pages_load_nothing_and_run_nothing():
    page = aggregation_html(arrays.boxes())
    assert "url(" not in page
    assert "@import" not in page
    assert page.count("http") == page.count("http://www.w3.org/2000/svg")


def test_light_text_of_a_dark_system_never_stands_on_the_light_ground_of_a_page():
    page = aggregation_html(arrays.boxes())
    own = page[page.index(".cfagg{") :].partition("}")[0]
    assert "color:var(--cfagg-ink);\nbackground:var(--cfagg-paper)" in own
    grounds = re.findall(r"--cfagg-paper:var\(--jp-layout-color0,(#\w+)\)", page)
    assert grounds == ["#fff", "#0d1117"]


def test_svg_is_well_formed_and_has_one_polygon_a_patch():
    drawing = draw(arrays.series(2, names=[EVIL, "b\x00.nc"]))
    root = ET.fromstring(svg(drawing))
    assert len(root.findall("{http://www.w3.org/2000/svg}polygon")) == len(drawing.patches)


@pytest.mark.full
def test_a_million_partitions_make_a_small_page():
    assert len(aggregation_html(arrays.of_a_million(100, 100, 100))) < 300_000


def test_an_aggregation_shows_itself_in_notebooks():
    assert cfagg.Aggregation is type(arrays.scalar())
    assert "<svg" in arrays.scalar()._repr_html_()


def test_a_file_shows_itself_in_notebooks_and_in_print():
    shown = cfagg.show(sample("temperature2.nca"))
    page = Elements(shown._repr_html_())
    assert page.open == []
    assert page.names <= ELEMENTS
    assert {"3 variables", "2 partitions", "2 files", "test2.nc"} <= set(page.data)
    assert "partition matrix: 2 × 1 × 1" in str(shown)
    assert repr(shown) == str(shown)


def test_only_the_variables_asked_for_are_shown():
    shown = cfagg.show(sample("temperature2.nca"), variables=["lat"])
    assert "tas" not in str(shown)
    assert "<svg" not in shown._repr_html_()
