"""The repair of nearly-JSON: what it changes, and that it changes nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.conventions import limits, tolerant_json
from cfagg.errors import ConventionError, LimitError

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def repaired(text):
    return json.loads(tolerant_json.repair(text)[0])


@given(ANY_JSON, st.sampled_from([None, 1]), st.booleans())
def test_strict_json_keeps_its_value_and_needs_no_repair(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    fixed, repairs = tolerant_json.repair(text)
    assert json.loads(fixed) == value
    assert repairs == []


@given(st.lists(st.text(st.characters(exclude_categories=["C"]))))
def test_single_quotes_stand_for_double_quotes_whatever_they_hold(strings):
    text = ", ".join("'" + s.replace("\\", "\\\\").replace("'", "\\'") + "'" for s in strings)
    assert repaired(f"[{text}]") == strings


@pytest.mark.parametrize(
    ("text", "value", "kinds"),
    [
        ("{directions': 1}", {"directions": 1}, ["opening quote"]),
        ("['time', lat']", ["time", "lat"], ["opening quote", "single quotes"]),
        ('["time", lat"]', ["time", "lat"], ["opening quote"]),
        ("{'time', true, 'lat': false}", {"time": True, "lat": False}, ["colon", "single quotes"]),
        ("\ufeff{}", {}, ["byte order mark"]),
        ("[true', 1']", ["true", "1"], ["opening quote", "opening quote"]),
        ("[été']", ["été"], ["opening quote"]),
    ],
)
def test_each_known_misprint_is_repaired_and_told(text, value, kinds):
    fixed, repairs = tolerant_json.repair(text)
    assert json.loads(fixed) == value
    assert [r.kind for r in repairs] == kinds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "]",
        "{'a'}",
        "{'a' 1}",
        "{'a', 'b'}",
        "{'a', null}",
        "[1 2]",
        "[1,]",
        "{,}",
        "['a]",
        "['a\nb']",
        "[a]",
        "['\\x41']",
        "[01]",
        "[+1]",
        "[.5]",
        "[1.]",
        "[0x1]",
        "[1_0]",
        "[True]",
        "[()]",
        "1 2",
        "[}",
        "{]",
        "# no",
        "[nan]",
        "['a''b']",
        "[\"a\" 'b']",
        "{1: 2}",
        "{[]: 1}",
        "[\\]",
    ],
)
def test_anything_else_is_an_error_that_names_line_and_column(text):
    with pytest.raises(ConventionError, match=r"^line \d+ column \d+: expected"):
        tolerant_json.repair(text)


def test_places_are_those_of_the_text_as_found():
    with pytest.raises(ConventionError, match="line 3 column 2"):
        tolerant_json.repair("{'a': 1,\n b': 2,\n ?}")


def test_nesting_is_capped_without_recursion():
    deep = "[" * limits.MAX_DEPTH + "]" * limits.MAX_DEPTH
    assert tolerant_json.repair(deep) == (deep, [])
    with pytest.raises(LimitError, match="nested deeper than 64"):
        tolerant_json.repair(f"[{deep}]")


def test_a_long_text_is_put_together_again():
    text = json.dumps(list(range(70_000)), separators=(",", ":"))
    assert tolerant_json.repair(text) == (text, [])


def test_only_the_places_of_repairs_that_are_shown_are_looked_for(monkeypatch):
    real, asked = tolerant_json.place, []
    monkeypatch.setattr(tolerant_json, "place", lambda *given: asked.append(given) or real(*given))
    fixed, repairs = tolerant_json.repair(f"[{', '.join(["a'"] * 1000)}]")
    assert json.loads(fixed) == ["a"] * 1000
    assert len(repairs) == 1000
    assert len(asked) == limits.MAX_REPAIR_WARNINGS
    assert repairs[0].message == "the opening quote of 'a' is missing (line 1 column 2)"
