"""What notebooks show of reports, accumulations and samples: complete, and never markup of a file's own."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

import cfagg
from cfagg.conversion.report import Report
from cfagg.display.facts import facts_html
from cfagg.display.sizes import size_text
from cfagg.findings.losses import Loss
from cfagg.observations.creating import Report as Created
from cfagg.observations.joining import JoinedSample
from cfagg.observations.sample import Details, Header, Sample
from tests.display.test_html import ATTRIBUTES, ELEMENTS, EVIL, Elements


def check(page: str) -> str:
    """Return the visible text of a page of allowed elements only, all of them closed."""
    found = Elements(page)
    assert found.names <= ELEMENTS
    assert found.attributes <= ATTRIBUTES
    assert not found.open
    return " ".join(found.data)


def test_names_values_and_lines_are_escaped():
    text = check(facts_html(EVIL, [(EVIL, EVIL)], [(EVIL, [EVIL])]))
    assert text.count("<script>alert(1)</script>") == 5


def test_short_texts_stay_on_one_line_and_long_ones_may_break():
    page = facts_html("a", [("samples", "1,460"), ("store", "x" * 300)])
    assert '<th class="cfagg-whole">samples</th><td class="cfagg-whole">1,460</td>' in page
    assert f"<td>{'x' * 300}</td>" in page


def test_long_lists_are_cut_and_empty_ones_left_out():
    text = check(facts_html("a", [("none", None), ("empty", "")], [("lines", range(1000)), ("nothing", ())]))
    assert "and 800 more" in text
    assert not {"none", "empty", "nothing"} & set(text.split())


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (5 << 40, "5.0 TiB")]
)
def test_sizes_are_in_powers_of_1024(count, text):
    assert size_text(count) == text


def test_a_conversion_report_shows_losses_and_notes():
    report = Report(
        target=EVIL,
        variables=(EVIL,),
        bytes=4 << 20,
        stored=1 << 20,
        chunks=3,
        notes=("a note",),
        losses=(Loss("tas", None, "it", "x", "why"),),
    )
    text = check(report._repr_html_())
    for part in (EVIL, "4.0 MiB", "1.0 MiB in 3 chunks", "a note", "variable 'tas': it (x) is lost: why"):
        assert part in text
    assert "4.0 MiB in 3 chunks (1.0 MiB stored)" in str(report)


def test_an_accumulation_and_its_report_show_their_variable(tmp_path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    root.create_array("tas", data=np.ones((20, 4), "f4"), chunks=(5, 4), dimension_names=("time", "x"))
    report = cfagg.accumulate(tmp_path / "a.zarr", "tas", dims=["time"])
    assert "tas" in check(report._repr_html_())
    with cfagg.open_accumulated(tmp_path / "a.zarr", "tas") as opened:
        assert "time: 20, x: 4" in check(opened._repr_html_())


def test_a_build_of_observations_shows_its_rows():
    text = check(Created(EVIL, "cfagg", "bisect", (("a", "b"),), rows=1234, variables=(EVIL,))._repr_html_())
    assert "1,234" in text
    assert EVIL in text


def test_a_joined_sample_shows_its_parts():
    text = check(JoinedSample(np.array(["2020-01-01"], "M8[s]"), {EVIL: np.zeros((2, 3))})._repr_html_())
    assert EVIL in text
    assert "(2, 3)" in text


def test_a_sample_shows_its_columns_and_a_part_of_it_its_shape():
    places = np.zeros((2, 4), "f4")
    names = ("a", EVIL)
    sample = Sample(np.zeros((2, 2), "f4"), Details(places, np.zeros(1, np.int64)), Header(names))
    assert EVIL in check(sample._repr_html_())
    assert "float32" in check((sample + 1)._repr_html_())
