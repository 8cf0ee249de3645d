"""The forms in which a check is told, read by what reads them."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.checking.formats import FORMATS, Style, render
from cfagg.checking.registry import registered
from cfagg.checking.report import SourceReport
from cfagg.cli import check as command
from cfagg.findings.finding import Finding
from tests.checking.formats.results import ALL, BAD, CLEAN, PLAIN, UNREAD
from tests.effort import examples

SCHEMA = json.loads(Path(__file__).with_name("sarif_schema.json").read_text(encoding="utf-8"))

#: The results alone.
RESULTS = jsonschema.Draft7Validator(
    {**SCHEMA["definitions"]["run"]["properties"]["results"], "definitions": SCHEMA["definitions"]}
)

texts = st.text(max_size=12) | st.sampled_from(
    ["<img src=x>", "</style><script>", "]]>", "\n::error::", "&lt;", '"><li>']
)


@st.composite
def results(draw):
    severity = st.sampled_from(["error", "warning", "info"])
    finding = st.builds(Finding, st.sampled_from(["UNI001", "NEW123"]), severity, texts, st.none() | texts, texts)
    found = draw(st.lists(finding, max_size=3))
    return SourceReport(draw(texts.filter(bool)), "1.13", tuple(found), {"DOC001": draw(texts)}, ("UNI001",))


def told(name, *results, **style):
    return "".join(render(name, results, Style(**style)))


def untimed(text):
    # JUnit's files say when they were written, to the second.
    return re.sub(r'timestamp="[^"]+"', "", text)


def test_the_formats_of_the_command_are_those_that_there_are():
    assert tuple(FORMATS) == command.FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_results_are_taken_one_by_one(name):
    taken = []

    def source():
        for result in ALL:
            taken.append(result)
            yield result

    one_by_one = "".join(import_module(FORMATS[name]).render(source(), Style()))
    assert untimed(one_by_one) == untimed(told(name, *ALL))
    assert taken == list(ALL)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=examples(30))
@given(result=results())
def test_whatever_a_dataset_holds_can_be_told_in_utf8(name, result):
    assert told(name, PLAIN, result).encode("utf-8")


@settings(max_examples=examples(50))
@given(result=results())
def test_whatever_a_dataset_holds_stays_within_its_form(result):
    (found,) = json.loads(told("json", result))
    assert found == {"form": "cfagg check", "form_version": 1, **result.as_dict()}
    RESULTS.validate(json.loads(told("sarif", result))["runs"][0]["results"])
    (suite,) = suites(result)
    assert len(suite.findall("testcase")) == int(suite.get("tests"))
    assert told("github", result).count("\n") == len(result.findings)
    assert told("text", result).count("\n") <= 2 * len(result.findings) + 4
    tags = Tags()
    tags.feed(told("html", result))
    assert tags.found["script"] == 1
    assert tags.found["li"] == len(result.findings) + (3 if result.findings else 1)
    assert tags.found["img"] == 0


class Tags(HTMLParser):
    """Counts the elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def handle_starttag(self, tag, attrs):
        self.found[tag] += 1


# ---- JSON


def test_json_is_a_list_with_an_object_for_each_source():
    found = json.loads(told("json", *ALL))
    assert [f["source"] for f in found] == [r.source for r in ALL]
    assert all(list(f) == ["form", "form_version", "source", "cf_version", "findings"] for f in found)
    assert found[0]["findings"][0] == {
        "code": "UNI002",
        "severity": "error",
        "variable": "tas",
        "attribute": "units",
        "message": "units 'hot' are not known",
    }
    assert found[3]["cf_version"] is None


def test_json_of_nothing_is_an_empty_list():
    assert json.loads(told("json")) == []


def test_json_counts_what_is_left_out():
    result = SourceReport("a.nc", "1.8", PLAIN.findings, dropped={"UNI002": 7})
    assert [source.get("dropped") for source in json.loads(told("json", result, PLAIN))] == [{"UNI002": 7}, None]


def test_json_is_ascii():
    assert told("json", BAD).isascii()


def test_json_statistics_are_a_list_of_rules_the_most_frequent_first():
    found = json.loads(told("json", PLAIN, PLAIN, BAD, statistics=True))
    assert [(f["code"], f["count"]) for f in found] == [("DOC010", 3), ("UNI002", 3), ("DOC004", 2)]
    assert found[1]["severity"] == "error"
    assert found[1]["summary"]


def often(severity="warning"):
    one = Finding("CEL006", severity, "tas", "cell_methods", "no cell_methods")
    other = Finding("UNI001", "error", "tas", "units", "no units")
    return [SourceReport(name, "1.7", (other, one, one)) for name in ("a.nc", "b.nc")]


@pytest.mark.parametrize(("name", "shown"), [("text", 2), ("github", 2)])
def test_readers_are_shown_missing_cell_methods_once_a_run(name, shown):
    text = told(name, *often())
    assert text.count("CEL006") == shown
    assert text.count("UNI001") == 2
    assert "shown once per run: 3 more like it" in text


def test_errors_are_always_shown_and_programs_are_told_everything():
    assert told("github", *often("error")).count("CEL006") == 4
    assert [told(name, *often()).count("CEL006") for name in ("json", "sarif")] == [4, 5]
    assert "4  CEL006" in told("text", *often(), statistics=True)


# ---- SARIF


@pytest.mark.parametrize("results", [(), (PLAIN,), (CLEAN,), ALL], ids=["none", "plain", "clean", "all"])
def test_sarif_follows_its_schema(results):
    jsonschema.Draft7Validator(SCHEMA).validate(json.loads(told("sarif", *results)))


def test_sarif_names_rule_level_file_and_variable():
    (run,) = json.loads(told("sarif", PLAIN))["runs"]
    first = run["results"][0]
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == first["ruleId"] == "UNI002"
    assert [r["level"] for r in run["results"]] == ["error", "warning", "note"]
    (place,) = first["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "data/a%20b.nc"
    assert place["logicalLocations"][0]["fullyQualifiedName"] == "tas"


def test_sarif_tells_files_apart_whose_names_are_not_unicode():
    reports = [SourceReport(f"a{c}.nc", "1.13", (Finding("UNI002", "error", None, None, ""),)) for c in "\udcfe\udcff"]
    (run,) = json.loads(told("sarif", *reports))["runs"]
    places = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]]
    assert places == ["a%FE.nc", "a%FF.nc"]


def test_sarif_has_the_rules_of_its_results_and_no_others():
    (run,) = json.loads(told("sarif", CLEAN, PLAIN, PLAIN))["runs"]
    assert [r["id"] for r in run["tool"]["driver"]["rules"]] == ["UNI002", "DOC004", "DOC010"]
    assert [r["ruleIndex"] for r in run["results"]] == [0, 1, 2, 0, 1, 2]


def test_sarif_links_every_rule_of_cf_to_its_section():
    found = tuple(Finding(code, "warning", None, None, "a remark") for code in registered() if code[:3] != "INT")
    (run,) = json.loads(told("sarif", SourceReport("a.nc", "1.13", found)))["runs"]
    rules = {r["id"]: r for r in run["tool"]["driver"]["rules"]}
    assert rules["NAM001"]["helpUri"].endswith("cf-conventions.html#long-name")
    assert [c for c, r in rules.items() if r["properties"]["section"][:1].isdigit() and "helpUri" not in r] == []


def test_sarif_tells_what_could_not_be_checked_as_a_failure_of_the_run():
    (run,) = json.loads(told("sarif", CLEAN, UNREAD))["runs"]
    (invocation,) = run["invocations"]
    assert run["results"] == []
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["descriptor"] == {"id": "INT003"}
    (place,) = invocation["toolExecutionNotifications"][0]["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "file:///archive/none.nc"


def test_what_rules_could_not_read_is_a_warning_and_no_failure_of_the_run():
    found = Finding("INT004", "warning", None, None, "not checked by COO001: variable 't' has too many values")
    result = SourceReport("a.nc", "1.13", (found,), {"COO001": "variable 't' has too many values"})
    (run,) = json.loads(told("sarif", result))["runs"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is True
    assert [n["level"] for n in invocation["toolExecutionNotifications"]] == ["warning"]
    (suite,) = suites(result)
    assert (suite.get("errors"), suite.get("failures")) == ("0", "0")
    assert suites(result, strict=True)[0].get("failures") == "1"
    assert found.message in told("text", result)


# ---- JUnit


def suites(*results, **style):
    return ET.fromstring(told("junit", *results, **style)).findall("testsuite")


@pytest.mark.parametrize("result", ALL)
def test_junit_has_the_elements_and_attributes_of_its_schema_in_order(result):
    (suite,) = suites(result)
    required = {"id", "package", "name", "hostname", "timestamp", "time", "tests", "failures", "errors"}
    assert required <= set(suite.attrib) <= required | {"skipped"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp"))
    tags = [child.tag for child in suite]
    assert tags[0] == "properties"
    assert tags[-2:] == ["system-out", "system-err"]
    assert set(tags[1:-2]) <= {"testcase"}
    for case in suite.findall("testcase"):
        assert set(case.attrib) == {"name", "classname", "time"}
        assert len(case) <= 1
        assert {c.tag for c in case} <= {"failure", "error", "skipped"}
        assert all(c.get("type") for c in case if c.tag != "skipped")


@pytest.mark.parametrize("result", ALL)
def test_junit_counts_what_it_holds(result):
    (suite,) = suites(result)
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(name)) == len(suite.findall(f"testcase/{tag}"))
    assert int(suite.get("tests")) == len(suite.findall("testcase"))


def test_junit_has_a_case_for_each_rule_and_errors_fail():
    (suite,) = suites(PLAIN)
    failing = [c.get("name")[:6] for c in suite.findall("testcase") if c.find("failure") is not None]
    assert failing == ["UNI002"]
    assert [c.get("name")[:6] for c in suite.findall("testcase")] == [*PLAIN.ran, "DOC001"]
    assert "DOC004" in suite.findtext("system-out")


def test_junit_fails_for_warnings_where_strict():
    (suite,) = suites(PLAIN, strict=True)
    assert suite.get("failures") == "2"


def test_junit_tells_what_could_not_be_checked_as_an_error():
    (suite,) = suites(UNREAD)
    assert suite.get("errors") == "1"
    assert "no such file" in suite.find("testcase/error").get("message")


# ---- GitHub


def test_github_has_one_command_for_each_finding():
    lines = told("github", PLAIN).splitlines()
    assert lines == [
        "::error file=data/a b.nc,title=UNI002::tas:units: units 'hot' are not known",
        "::warning file=data/a b.nc,title=DOC004::tas: the variable is called so",
        "::notice file=data/a b.nc,title=DOC010:::Conventions: a remark",
    ]


def test_github_commands_cannot_be_forged():
    text = told("github", BAD)
    assert len(text.splitlines(keepends=False)) >= 2
    lines = text.removesuffix("\n").split("\n")
    assert len(lines) == len(BAD.findings)
    assert all(line.isprintable() for line in lines)
    assert all(re.match(r"::(error|warning) file=[^,:]*,title=[A-Z]{3}\d{3}::", line) for line in lines)


# ---- text


def test_text_groups_findings_by_variable():
    assert told("text", PLAIN, CLEAN).splitlines() == [
        "data/a b.nc: CF-1.8, 1 error, 1 warning, 1 info",
        "  tas",
        "    error   UNI002 units: units 'hot' are not known",
        "    warning DOC004 the variable is called so",
        "  dataset",
        "    info    DOC010 Conventions: a remark",
        "",
        "clean.nc: CF-1.13, no findings",
        "2 sources: 1 error, 1 warning, 1 info",
    ]


def test_text_tells_why_a_source_was_not_checked():
    assert told("text", UNREAD).splitlines()[:2] == [
        "/archive/none.nc: not checked",
        "    there is no such file",
    ]


def test_text_tells_skipped_rules_when_asked():
    assert "    DOC001 the source has no file name" in told("text", PLAIN, skipped=True).splitlines()
    assert "DOC001" not in told("text", PLAIN)


def test_text_is_broken_at_the_width_of_the_terminal_and_aligned():
    long = SourceReport("a.nc", "1.8", (Finding("UNI002", "error", "tas", "units", "many words " * 30),))
    lines = told("text", long, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    assert {len(line) - len(line.lstrip()) for line in lines[3:-2]} == {19}


def test_text_has_colours_only_when_asked():
    assert "\x1b[31m" in told("text", PLAIN, colour=True)
    assert "\x1b" not in told("text", *ALL)


def test_text_is_safe_for_terminals():
    text = told("text", BAD)
    assert all(c.isprintable() or c == "\n" for c in text)
    report = SourceReport("a\x9b31m\u202e.nc", "1.8", BAD.findings, ran=BAD.ran)
    assert all(c.isprintable() or c == "\n" for c in told("junit", report))


MORE = SourceReport("a.nc", "1.8", PLAIN.findings, ran=PLAIN.ran, dropped={"UNI002": 7000, "DOC004": 1})


def test_sarif_tells_of_findings_that_are_not_listed_in_notifications_of_the_run():
    text = told("sarif", MORE, CLEAN)
    jsonschema.validate(json.loads(text), SCHEMA)
    (run,) = json.loads(text)["runs"]
    (invocation,) = run["invocations"]
    assert len(run["results"]) == len(PLAIN.findings)
    assert [(n["level"], n["associatedRule"]) for n in invocation["toolExecutionNotifications"]] == [
        ("note", {"id": "UNI002"}),
        ("note", {"id": "DOC004"}),
    ]
    assert "7,000 more are not shown" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_junit_tells_of_findings_that_are_not_listed_with_the_failure_and_in_the_output():
    (suite,) = suites(MORE)
    (failure,) = suite.findall("testcase/failure")
    assert failure.get("message").endswith("(and 7,000 more)")
    assert suite.findtext("system-out").splitlines()[-2:] == [
        "UNI002: 7,000 more are not shown; --statistics counts them",
        "DOC004: 1 more are not shown; --statistics counts them",
    ]
    assert (suite.get("failures"), len(suite.findall("testcase"))) == ("1", int(suite.get("tests")))


def test_github_is_told_of_findings_that_are_not_listed_in_notices():
    assert told("github", MORE).splitlines()[-2:] == [
        "::notice file=a.nc,title=UNI002::7,000 more are not shown; --statistics counts them",
        "::notice file=a.nc,title=DOC004::1 more are not shown; --statistics counts them",
    ]


def test_text_counts_what_is_left_out_and_suppressed():
    result = SourceReport("a.nc", "1.8", PLAIN.findings, dropped={"UNI002": 7}, suppressed={0: 3})
    text = told("text", result)
    assert "  UNI002: 7 more are not shown" in text
    assert text.endswith("1 source: 1 error, 1 warning, 1 info, 7 more findings, 3 suppressed\n")


def test_text_statistics_replace_the_findings():
    lines = told("text", PLAIN, PLAIN, statistics=True).splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [["2", "DOC004"], ["2", "DOC010"], ["2", "UNI002"]]
    assert lines[-1].startswith("2 sources: ")
