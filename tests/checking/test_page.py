"""The page of a check, looked at and used in a real browser."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from pathlib import Path

import pytest

import cfagg
from cfagg.checking.formats import Style, render
from cfagg.checking.formats.html import summary
from cfagg.checking.report import SourceReport
from cfagg.demo import sample
from cfagg.findings.finding import Finding
from tests.checking.browser import Browser, program
from tests.checking.formats.results import ALL, BAD, CLEAN, PLAIN, UNREAD

pytestmark = pytest.mark.skipif(program() is None, reason="no browser is installed")

PICTURE = """
<svg class="cfagg-matrix" xmlns="http://www.w3.org/2000/svg" width="80" height="40" viewBox="0 0 80 40" role="img"
aria-label="Partition matrix of tas"><polygon class="cfagg-cell" fill="#ff00ff" points="0,0 80,0 80,40 0,40"/></svg>
"""

VISIBLE = "Array.from(document.querySelectorAll('.finding')).filter(e => e.offsetParent !== null)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        found.size(1000, 900)
        yield found


def page(tmp_path: Path, *results: SourceReport) -> Path:
    path = tmp_path / "report.html"
    path.write_text("".join(render("html", results, Style())), encoding="utf-8")
    return path


@pytest.fixture
def shown(browser, tmp_path):
    """The page of all results, as it is first seen."""
    browser.scheme("light")
    browser.open(page(tmp_path, *ALL))
    return browser


def messages(browser: Browser) -> list[str]:
    return browser.run(f"{VISIBLE}.map(e => e.textContent)")


def colours(png: bytes) -> Counter[tuple[int, ...]]:
    """Count the colours of a PNG of 8 bits a channel."""
    at, data, width, height, channels = 8, b"", 0, 0, 0
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
            channels = {2: 3, 6: 4}[body[9]]
        elif kind == b"IDAT":
            data += body
        at += 12 + size
    raw, row, found = zlib.decompress(data), bytearray(width * channels), Counter()
    step = width * channels
    for y in range(height):
        kind_of_row, line = raw[y * (step + 1)], bytearray(raw[y * (step + 1) + 1 : (y + 1) * (step + 1)])
        for i in range(step):
            left = line[i - channels] if i >= channels else 0
            up = row[i]
            corner = row[i - channels] if i >= channels else 0
            if kind_of_row == 1:
                line[i] = (line[i] + left) & 255
            elif kind_of_row == 2:
                line[i] = (line[i] + up) & 255
            elif kind_of_row == 3:
                line[i] = (line[i] + (left + up) // 2) & 255
            elif kind_of_row == 4:
                guess = left + up - corner
                near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))
                line[i] = (line[i] + near[2]) & 255
        found.update(tuple(line[i : i + 3]) for i in range(0, step, channels))
        row = line
    return found


def test_the_page_asks_for_nothing_but_itself_and_nothing_complains(shown):
    assert len(shown.requests()) == 1
    assert shown.requests()[0].startswith("file:")
    assert shown.complaints() == []


def test_text_of_a_dataset_is_shown_and_never_run(shown):
    assert "<script>alert(1)</script>" in " ".join(messages(shown))
    assert shown.run("document.scripts.length") == 1
    assert shown.run("document.querySelectorAll('.source script, .source [onclick]').length") == 0


def test_a_script_that_came_in_anyway_would_not_run(shown):
    shown.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.broken = true\">')")
    shown.run(
        "{const s = document.createElement('script'); s.textContent = 'window.broken = true'; document.body.append(s)}"
    )
    shown.run("new Promise(done => setTimeout(done, 100))")
    assert shown.run("window.broken === undefined")


def test_all_findings_are_seen_at_first_grouped_by_variable(shown):
    assert len(messages(shown)) == sum(len(r.findings) for r in ALL)
    groups = shown.run(
        "Array.from(document.querySelectorAll('.source')).map(s => Array.from(s.querySelectorAll('.group summary b'))"
        ".map(b => b.textContent))"
    )
    assert groups[0] == ["tas", "dataset"]
    assert shown.run("document.querySelector('output').textContent") == "6 of 6 shown"


def test_the_counts_are_at_the_top(shown):
    assert shown.run("document.querySelector('.counts').innerText").split() == [
        *("3", "errors"),
        *("2", "warnings"),
        *("1", "info"),
    ]


def test_a_severity_can_be_hidden_and_shown_again(shown):
    shown.click("button[data-severity=warning]")
    assert shown.run("document.querySelector('button[data-severity=warning]').getAttribute('aria-pressed')") == "false"
    assert len(messages(shown)) == 4
    assert shown.run("document.querySelector('output').textContent") == "4 of 6 shown"
    shown.click("button[data-severity=warning]")
    assert len(messages(shown)) == 6


def test_the_search_finds_words_of_code_variable_message_and_source(shown):
    shown.press("/")
    assert shown.run("document.activeElement.type") == "search"
    shown.type("TAS hot")
    shown.until("document.querySelector('output').textContent.startsWith('1 of')")
    assert messages(shown) == ["unitsunits 'hot' are not known"]
    sources = "Array.from(document.querySelectorAll('.source')).filter(e => e.offsetParent !== null).length"
    assert shown.run(sources) == 1
    shown.run("document.querySelector('input').select()")
    shown.type("doc010")
    shown.until("document.querySelector('output').textContent.startsWith('2 of')")
    assert shown.run(sources) == 2


def test_a_source_without_findings_is_found_by_its_name(shown):
    shown.press("/")
    shown.type("clean.nc")
    shown.until("document.querySelector('output').textContent.startsWith('0 of')")
    seen = "Array.from(document.querySelectorAll('.source')).filter(e => e.offsetParent !== null)"
    assert shown.run(f"{seen}.map(e => e.dataset.source)") == ["clean.nc"]


def choose(browser: Browser, value: str) -> None:
    browser.run(
        f"{{const s = document.querySelector('select'); s.value = '{value}'; s.dispatchEvent(new Event('change'))}}"
    )


def test_findings_can_be_grouped_by_rule_and_back(shown):
    choose(shown, "rule")
    heads = shown.run(
        "Array.from(document.querySelector('.source').querySelectorAll('.group > summary b'), b => b.textContent)"
    )
    assert heads == ["UNI002", "DOC004", "DOC010"]
    assert len(messages(shown)) == 6
    shown.click("button[data-severity=error]")
    assert len(messages(shown)) == 3
    choose(shown, "variable")
    assert len(messages(shown)) == 3
    assert shown.run("document.querySelector('.source .group summary b').textContent") == "tas"


def test_a_rule_of_the_list_leads_to_its_findings(shown):
    shown.run("document.querySelector('.statistics').open = true")
    shown.click("a[data-code=UNI002]")
    assert shown.run("document.querySelector('input').value") == "UNI002"
    assert len(messages(shown)) == 2


def test_a_rule_links_to_its_section_of_the_conventions(shown):
    address = shown.run("document.querySelector('.rule[data-code=UNI002] a').href")
    assert address == "https://cfconventions.org/Data/cf-conventions/cf-conventions-1.13/cf-conventions.html#units"


def test_skipped_rules_and_versions_of_tables_are_told(shown):
    shown.run("document.querySelector('.skipped').open = true")
    assert "the source has no file name" in shown.run("document.querySelector('.skipped').innerText")
    shown.open(page(Path(shown.run("decodeURI(location.pathname)")).parent, PLAIN))
    assert "standard_names 94" in shown.run("document.querySelector('footer').innerText")


def test_a_source_that_was_not_checked_is_told(shown):
    assert "1 source not checked" in shown.run("document.body.innerText")


@pytest.mark.full
def test_the_page_is_light_or_dark_as_the_system_is(shown):
    def paper() -> str:
        return shown.run("getComputedStyle(document.body).backgroundColor")

    assert paper() == "rgb(255, 255, 255)"
    shown.scheme("dark")
    assert paper() == "rgb(13, 17, 23)"


@pytest.mark.few(1)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(shown, scheme):
    """The ratio of luminances is at least 4.5, as the Web Content Accessibility Guidelines ask (1.4.3)."""
    shown.scheme(scheme)
    ratio = """
        (() => {
          const light = c => c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
          const paper = light(getComputedStyle(document.body).backgroundColor);
          return Array.from(document.querySelectorAll('.error, .warning, .info, .quiet, .ok, .finding, a'), e => {
            const ink = light(getComputedStyle(e).color);
            return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
          });
        })()
    """
    assert min(shown.run(ratio)) >= 4.5


def test_partition_matrices_are_drawn(browser, tmp_path):
    browser.scheme("light")
    browser.open(page(tmp_path, SourceReport("a.nc", "1.13", pictures=(("g/tas<b>", PICTURE),))))
    assert browser.run("document.querySelector('figcaption').textContent") == "Partition matrix of g/tas<b>"
    assert colours(browser.picture())[255, 0, 255] > 2000


@pytest.mark.full
def test_the_page_fits_a_narrow_screen(shown):
    shown.size(360, 700)
    try:
        assert shown.run("document.documentElement.scrollWidth") <= 360
    finally:
        shown.size(1000, 900)


@pytest.mark.soak
@pytest.mark.full
def test_a_page_with_thousands_of_findings_is_searched_at_once(browser, tmp_path):
    many = tuple(Finding("NAM001", "warning", f"v{n}", None, f"variable {n} has no name") for n in range(5000))
    browser.open(page(tmp_path, SourceReport("many.nc", "1.13", many)))
    browser.press("/")
    started = browser.run("performance.now()")
    browser.type("v4321")
    browser.until("document.querySelector('output').textContent === '1 of 5,000 shown'")
    assert browser.run("performance.now()") - started < 3000


def test_without_findings_the_page_says_so(browser, tmp_path):
    browser.open(page(tmp_path, CLEAN))
    assert "No findings" in browser.run("document.body.innerText")
    assert browser.complaints() == []


def test_the_summary_for_notebooks_has_no_script_and_hides_nothing_of_its_surroundings(browser, tmp_path):
    path = tmp_path / "notebook.html"
    cell = summary((PLAIN, BAD, UNREAD))
    path.write_text(f'<!DOCTYPE html><meta charset="utf-8"><p id="before">before</p>{cell}', encoding="utf-8")
    browser.open(path)
    assert browser.run("document.scripts.length") == 0
    assert browser.run("getComputedStyle(document.getElementById('before')).fontSize") == "16px"
    assert browser.run("document.querySelectorAll('.finding').length") == 6
    assert browser.complaints() == []


def test_the_summary_of_many_findings_is_cut_and_says_so():
    many = tuple(Finding("NAM001", "warning", f"v{n}", None, "no name") for n in range(5000))
    text = summary((SourceReport("many.nc", "1.13", many),))
    assert text.count('class="finding"') == 200
    assert "4,800 more" in text


@pytest.mark.full
def test_the_summary_of_many_sources_shows_those_with_findings():
    text = summary((*[CLEAN] * 1000, PLAIN))
    assert text.count("<section") == 1
    assert "1,001 sources" in text


@pytest.mark.full
def test_the_page_of_an_aggregation_shows_its_partition_matrix(browser, tmp_path):
    path = tmp_path / "report.html"
    cfagg.check(sample("figure1.nca")).to_html(path)
    browser.open(path)
    assert browser.complaints() == []
    assert browser.run("document.querySelectorAll('figure svg.cfagg-matrix .cfagg-cell').length") >= 24
    size = browser.run(
        "{const r = document.querySelector('figure svg').getBoundingClientRect(); [r.width, r.height].map(Math.round)}"
    )
    assert min(size) > 100
    browser.run("document.querySelector('figure svg').scrollIntoView()")
    assert len(colours(browser.picture())) > 50
