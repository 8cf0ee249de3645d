"""The two schemas are checked by parsing of our own, which accepts exactly what jsonschema accepts."""

from __future__ import annotations

import copy

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from cfagg.conventions.accumulation_schema import ARRAY, GROUP, inspect, path_text, schema
from cfagg.conventions.findings import Findings

KEYS = ["_ACCUMULATION_GROUP", "_ARRAY_DIMENSIONS", "_ACCUMULATION_STRIDE"]
NAMES = st.sampled_from(
    ["time", "lat", "_WEIGHTS", "_DATA_UNWEIGHTED", "_DATA_WEIGHTED", "_WEIGHTS2", "a\nb", "a\n", "", " _WEIGHTS", "\n"]
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 2.0, -1.0, 1e300, float("inf"), float("nan")]),
    st.text(max_size=3), NAMES,
)  # fmt: skip
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
TREES = st.recursive(
    st.dictionaries(st.sampled_from(["_WEIGHTS", "_DATA_UNWEIGHTED", "_DATA_WEIGHTED"]), st.just("a"), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from(["time", "lat", "lon"]), inner, max_size=3),
    max_leaves=8,
)


def places(document: object) -> list[tuple[object, object]]:
    """Return every container of a document with each of its keys."""
    found: list[tuple[object, object]] = []
    waiting = [document]
    while waiting:
        node = waiting.pop()
        for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
            found.append((node, key))
            waiting.append(value)
    return found


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, object]:
    """Return true attributes, of a group and of an array, in some of whose places stands something else."""
    document: dict[str, object] = {
        "_ACCUMULATION_GROUP": draw(TREES),
        "_ARRAY_DIMENSIONS": draw(st.lists(st.sampled_from(["time", "lat"]), max_size=3)),
        "_ACCUMULATION_STRIDE": draw(st.lists(st.integers(0, 3), max_size=3)),
        "cfagg": {"version": 1},
    }
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 3))):
        container, key = draw(st.sampled_from(places(document)))
        what = draw(st.sampled_from(["replace", "remove", "rename"]))
        if what == "replace":
            container[key] = draw(VALUES)
        elif what == "remove":
            del container[key]
        elif isinstance(container, dict):
            container[draw(NAMES)] = container.pop(key)
        if not places(document):
            break
    return document


def by_jsonschema(document: object, name: str) -> set[str]:
    """Return the places of what jsonschema finds, by the rules of the schema as it is shipped."""
    found = set()
    for error in Draft7Validator(schema(name)).iter_errors(document):
        where = list(error.absolute_path)
        if error.validator == "required":
            found |= {path_text([k]) for k in error.validator_value if k not in error.instance}
        elif error.validator == "additionalProperties":
            # It names the object; every key that is too much is one of ours.
            found.add(f"in {path_text(where)}")
        else:
            found.add(path_text(where))
    return found


def by_us(document: object, name: str) -> set[str]:
    findings = Findings("tas")
    inspect(document, name, findings)
    return {p.where for p in findings.problems}


@pytest.mark.parametrize("name", [GROUP, ARRAY])
@given(document=st.one_of(mutated(), st.dictionaries(st.sampled_from(KEYS), VALUES), VALUES))
@example(document={"_ACCUMULATION_GROUP": {"time\n": {}}})
@example(document={"_ACCUMULATION_GROUP": {"_WEIGHTS": "a"}})
@example(document={"_ACCUMULATION_GROUP": {"time": {"_WEIGHTS": 1, "_WEIGHTS2": {}}}})
@example(document={"_ARRAY_DIMENSIONS": ["a", 1], "_ACCUMULATION_STRIDE": [True, 2.0, 0.5]})
@example(document=[])
def test_we_accept_what_jsonschema_accepts_and_name_the_same_places(name: str, document: object) -> None:
    theirs, ours = by_jsonschema(document, name), by_us(document, name)
    assert {p for p in theirs if not p.startswith("in ")} <= ours
    assert bool(theirs) == bool(ours)


@given(document=mutated())
def test_every_place_that_we_name_is_named_or_held_by_one_of_jsonschema(document: dict[str, object]) -> None:
    for name in (GROUP, ARRAY):
        theirs = by_jsonschema(document, name)
        for place in by_us(document, name) - theirs:
            assert any(place.startswith(p.removeprefix("in ")) for p in theirs if p.startswith("in "))
