"""The pictures and tables that are made while the documentation is built."""

from __future__ import annotations

import dataclasses
import doctest
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

DOCS = Path(__file__).parents[1] / "docs"
SAMPLES = Path(__file__).parents[1] / "sample_data"
PAGES = {p.name: p.read_text(encoding="utf-8") for p in DOCS.glob("*.md")}


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    """Return the hooks as MkDocs loads them."""
    spec = importlib.util.spec_from_file_location("docs_hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small(hooks: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module that measures costs, with an array of no size."""
    costs: ModuleType = hooks.costs
    for name, value in (("SHAPE", (60, 3, 4)), ("LENGTHS", (5, 10)), ("STRIDES", (1, 2)), ("RANGES", 3)):
        monkeypatch.setattr(costs, name, value)
    costs.measured.cache_clear()
    monkeypatch.setattr(hooks, "TABLES", {"costs": costs.table})
    return costs


def test_every_picture_on_a_page_is_made_and_every_picture_made_is_on_a_page(hooks: ModuleType) -> None:
    # tests/test_docs.py runs the pages, and looks at what their commands draw.
    drawn = {name for p in hooks.RUN for name in re.findall(r"^\$ cfagg .*--plot (\S+)", PAGES[p], re.MULTILINE)}
    samples = (*hooks.gallery.AGGREGATIONS, *hooks.gallery.FIELDS)
    shown = {name for text in PAGES.values() for name in re.findall(r"\]\(made/([^)]+)\)", text)}
    made = {"boxes.svg", "costs.svg", "projection.svg", "projection_plane.svg", "scale.svg", "windows.svg"}
    assert shown == {*drawn, *made, *map(hooks.gallery.name_of, samples)}


@pytest.mark.full
def test_the_boxes_are_drawn_and_their_pieces_add_up(hooks: ModuleType) -> None:
    assert doctest.testmod(hooks.boxes).failed == 0
    for edges, (a, b) in ((hooks.boxes.LATITUDE, hooks.boxes.ROWS), (hooks.boxes.LONGITUDE, hooks.boxes.COLUMNS)):
        pieces = hooks.boxes.pieces(edges, (a, b))
        cells = [sum(sign for start, stop, sign in pieces if start <= x < stop) for x in range(edges[-1])]
        assert cells == [int(a <= x < b) for x in range(edges[-1])]
    assert hooks.boxes.draw() == hooks.boxes.draw()
    assert hooks.boxes.draw().startswith(b"<?xml")


def test_each_sample_of_a_convention_and_each_pp_file_is_in_the_gallery(hooks: ModuleType) -> None:
    assert doctest.testmod(hooks.gallery).failed == 0
    assert {f"pp/{p.name}" for p in (SAMPLES / "pp").glob("*.pp")} == set(hooks.gallery.FIELDS)
    conventions = {p.name for p in SAMPLES.glob("temperature-*.nc")}
    assert {name for name in hooks.gallery.AGGREGATIONS if name.startswith("temperature-")} == conventions
    drawn = hooks.gallery.draw("figure1.nca")
    assert drawn.startswith(b"\x89PNG")
    assert len(drawn) < 100_000


def test_what_survives_a_translation_is_tried(hooks: ModuleType) -> None:
    lines = hooks.translation.survives().splitlines()
    assert lines[0] == "| | NCA-0.1 | CFA-0.4 | CFA-0.6.2 | CF-1.13 |"
    cells = [line.strip("|").split("|")[1:] for line in lines[2:]]
    assert {cell.strip() for row in cells for cell in row} == {"yes", "lost"}


def test_windows_are_drawn_and_their_rows_counted(hooks: ModuleType) -> None:
    assert doctest.testmod(hooks.windows).failed == 0
    assert list(hooks.windows.HOURS) == sorted(hooks.windows.HOURS)
    assert hooks.windows.draw() == hooks.windows.draw()
    assert hooks.windows.draw().startswith(b"<?xml")


@pytest.mark.full
def test_cases_of_projection_are_those_of_numpy_and_are_drawn(hooks: ModuleType) -> None:
    projection = hooks.projection
    assert doctest.testmod(projection).failed == 0
    for case in projection.CASES:
        chosen = case.selection if isinstance(case.selection, slice) else np.array(case.selection)
        expected = np.atleast_1d(np.arange(case.grid.shape[0])[chosen])
        assert projection.result(case) == expected.tolist(), case.name
    names = [c.name for c in projection.CASES]
    assert len(set(names)) == len(names)
    # The cases that the page promises.
    wanted = ("empty selection", "empty dimension", "step longer than a chunk", "partial last chunk", "negative step")
    assert {*wanted, "variable edges", *projection.DRAWN} <= {*names}
    for draw in (projection.draw, projection.draw_plane):
        assert draw() == draw()
        assert draw().startswith(b"<?xml")


def test_the_tables_about_scale_are_those_that_the_script_makes(hooks: ModuleType) -> None:
    scale = hooks.scale
    assert doctest.testmod(scale).failed == 0
    assert scale.page(PAGES["scale.md"]) == PAGES["scale.md"], "run python docs/making/scale.py"
    with pytest.raises(ValueError, match="no place"):
        scale.page("nothing")
    assert scale.draw() == scale.draw()
    assert scale.draw().startswith(b"<?xml")


def test_what_the_page_about_scale_says_of_its_figures_is_so(hooks: ModuleType) -> None:
    scale = hooks.scale
    # What does not depend on the number of chunks.
    for name in ("read the grid of equal chunks", "plan 30 steps of it", "append a step to equal chunks"):
        seconds = scale.measured()["jobs"][name]["seconds"]
        assert max(seconds.values()) < 4 * min(seconds.values()), name
    # The most expensive thing that is done for a partition before its file is opened.
    described = ("read the grid of unequal chunks", "plan the whole array")
    text = scale.each("read an aggregation's description", 10**6)[0]
    assert all(scale.each(name, 10**7)[0] < text for name in described)
    # Each chunk an object costs more for requests than for processors, and with shards it is the other way round.
    works = {w.name: w.price(scale.Cloud()) for w in scale.works()}
    requests, processors = works["convert to Zarr, a chunk an object"]
    assert requests > processors
    requests, processors = works["convert to sharded Zarr"]
    assert requests < processors / 2
    # Processors limit what converts or sums values, the network what only reads them, latency what reads metadata.
    limits = {w.name: w.slowest(16, scale.Cloud())[0] for w in scale.works()}
    assert limits["aggregate all files"] == limits["index all chunks"] == "latency"
    assert limits["convert to sharded Zarr"] == limits["accumulate, sharded"] == "processors"
    assert limits["read everything once"] == limits["a series at one point, a chunk of each file"] == "network"


@pytest.mark.full
def test_the_study_of_scale_measures_what_the_page_shows(hooks: ModuleType) -> None:
    from tests.benchmarks import scale

    found = scale.measured(1000)
    kept = hooks.scale.measured()
    assert found.keys() == kept.keys()
    assert [*found["jobs"]] == [*kept["jobs"]]
    assert found["rates"].keys() == kept["rates"].keys()
    # The page counts two for a file: a connection that the server has closed costs one more.
    for requests in (found["requests"], kept["requests"]):
        assert requests.keys() == {"aggregate a file", "index a file", "read a chunk"}
        assert all(1 <= n <= 2 for n in requests.values())
    for name, job in found["jobs"].items():
        for n, seconds in job["seconds"].items():
            # Whether they are as large as on the page depends on the machine and on what else it does.
            assert seconds > 0 < kept["jobs"][name]["seconds"][n], name


def test_blocks_and_commands_of_a_page_are_found(hooks: ModuleType) -> None:
    assert doctest.testmod(hooks.pages).failed == 0
    assert [b.title for b in hooks.pages.blocks(PAGES["observations.md"]) if b.title] == ["storms.yaml"]


def test_every_marked_table_is_known_and_every_table_is_on_a_page(hooks: ModuleType) -> None:
    marked = {name for text in PAGES.values() for name in re.findall(r"^<!-- made: (\w+) -->$", text, re.MULTILINE)}
    assert marked == set(hooks.TABLES)


def test_costs_are_measured_and_fill_the_marked_place(hooks: ModuleType, small: ModuleType) -> None:
    page = hooks.on_page_markdown("before\n\n<!-- made: costs -->\n\nafter\n")
    lines = page.splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert len([line for line in lines if line.startswith("| ")]) == 1 + 4
    costs = {(c.length, c.stride): dataclasses.asdict(c) for c in small.measured()}
    assert costs[5, 1]["stored"] > costs[10, 2]["stored"]
    assert small.draw().startswith(b"<?xml")


def test_all_are_written_into_a_folder_on_request(
    hooks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "pictures", lambda: {"boxes.svg": hooks.boxes.draw()})
    monkeypatch.setattr(hooks, "TABLES", {"steps": lambda: "| 1 |"})
    hooks.main(tmp_path / "out")
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"boxes.svg", "steps.md"}
    assert (tmp_path / "out/steps.md").read_text() == "| 1 |\n"


def test_the_readme_names_every_page_and_the_measurements_of_scale_their_date() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert [name for name in PAGES if f"`{name}`" not in readme] == []
    assert re.search(r"^Measured on 20\d\d-\d\d-\d\d( and 20\d\d-\d\d-\d\d)* on ", PAGES["scale.md"], re.MULTILINE)
