"""Whatever the metadata, no rule crashes, and hostile datasets end in time."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.checking import described
from cfagg.checking.context import Context
from cfagg.checking.engine import Result, run
from cfagg.checking.options import Options
from cfagg.formats.cdl.parsing import parse_cdl
from cfagg.model.dataset import Dataset, Dimension, Group, Variable
from tests.checking.corpus import CLEAN
from tests.checking.mutations import ATTRIBUTES, mutate
from tests.effort import examples


def crashes(result: Result) -> list[str]:
    return [str(f) for f in result.findings if f.code == "INT001"]


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(sorted(CLEAN)), st.integers(0, 2**32), st.integers(1, 12), st.booleans())
def test_no_rule_crashes_on_strange_metadata(key: str, seed: int, changes: int, data: bool) -> None:
    with parse_cdl(CLEAN[key]) as dataset:
        mutate(dataset, Random(seed), changes)
        assert crashes(run(dataset, Options(data=data))) == []


@settings(max_examples=examples(50), deadline=None)
@given(
    st.sampled_from(ATTRIBUTES),
    st.one_of(st.text(max_size=60), st.binary(max_size=20), st.lists(st.text(max_size=8), max_size=4).map(tuple)),
    st.sampled_from(("1.0", "1.6", "1.8", "1.13", "1.14-draft")),
)
def test_no_rule_crashes_on_any_text_in_any_attribute(name: str, value: object, version: str) -> None:
    with parse_cdl(CLEAN["grid"]) as dataset:
        for v in dataset.variables:
            v.attributes[name] = value
        dataset.root.attributes[name] = value
        assert crashes(run(dataset, Options(data=True, cf_version=version))) == []


def made(*variables: Variable, root: Group | None = None) -> Dataset:
    root = root or Group()
    for variable in variables:
        root.variables[variable.name] = variable
    root.attributes["Conventions"] = "CF-1.13"
    return Dataset("made", "netcdf", root)


def scalar(name: str, group: Group, **attributes: object) -> Variable:
    return Variable(name, group, (), np.dtype("f4"), "float", dict(attributes))


def seconds(dataset: Dataset) -> float:
    start = time.process_time()
    assert crashes(run(dataset, Options(data=True))) == []
    return time.process_time() - start


def test_a_hundred_thousand_attributes_end_in_time() -> None:
    root = Group()
    variable = scalar("a", root, **{f"x{n}": "y" for n in range(100_000)})
    root.attributes.update({f"x{n}": "y" for n in range(100_000)})
    assert seconds(made(variable, root=root)) < 10


@pytest.mark.few(9)
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_long_attribute_ends_in_time(name: str) -> None:
    root = Group()
    x = root.add_dimension("x", 2)
    variable = Variable("x", root, (x,), np.dtype("f8"), "float", {"units": "m"})
    variable.attributes[name] = "a: b (c " * 10_000
    assert seconds(made(variable, root=root)) < 5


@pytest.mark.parametrize("text", ["a: " * 20_000 + "mean", " ".join(f"n{i}:" for i in range(8_000)) + " mean"])
def test_long_lists_of_cell_methods_beside_coordinates_end_in_time(text: str) -> None:
    root = Group()
    variable = scalar("v", root, cell_methods=text, coordinates=text.replace(":", ""))
    assert seconds(made(variable, root=root)) < 3


def test_variables_that_name_each_other_in_circles_end() -> None:
    root = Group()
    x = root.add_dimension("x", 2)
    names = ["x", "b", "c"]
    everything = " ".join(names)
    for name in names:
        attributes = {a: everything for a in ATTRIBUTES if a != "Conventions"}
        attributes["formula_terms"] = attributes["cell_measures"] = "a: x b: b c: c"
        root.variables[name] = Variable(name, root, (x,), np.dtype("f8"), "float", attributes)
    assert seconds(made(root=root)) < 5


def test_a_thousand_groups_below_each_other_end_in_time() -> None:
    root = Group()
    at = root
    for n in range(1000):
        at = at.child(f"g{n % 7}")
    at.variables["a"] = scalar("a", at, coordinates="b c d", units="K")
    assert seconds(made(root=root)) < 5


def test_a_huge_variable_of_which_only_the_header_is_known_is_not_read() -> None:
    root = Group()
    x = root.add_dimension("x", 2**40)
    huge = Variable("x", root, (x,), np.dtype("f8"), "float", {"units": "m", "long_name": "x"})
    small = Dimension("y", 2)
    root.dimensions["y"] = small
    result = run(made(huge, root=root), Options())
    assert crashes(result) == []


def many(clean: str, copied: str, count: int) -> Dataset:
    """Return a clean dataset with so many more variables like one of it."""
    with parse_cdl(CLEAN[clean]) as dataset:
        template = dataset.root.variables[copied]
        for n in range(count):
            one = replace(template, name=f"v{n}", attributes=dict(template.attributes))
            dataset.root.variables[one.name] = one
        return made(root=dataset.root)


def test_time_grows_with_the_number_of_variables_and_not_with_its_square() -> None:
    seconds(many("grid", "tas", 10))
    # What else the machine does costs both some time, now and then one of them more.
    ratios = (seconds(many("grid", "tas", 1600)) / seconds(many("grid", "tas", 200)) for _ in range(9))
    assert any(ratio < 8 * 2.5 for ratio in ratios)


def test_each_variable_is_looked_at_a_limited_number_of_times_for_many_aggregations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0

    def is_private(_: Variable) -> bool:
        nonlocal looks
        looks += 1
        return False

    monkeypatch.setattr(described, "is_private", is_private)
    assert len(described.described(Context(many("2.3 aggregation", "humidity", 200)))) == 201
    assert looks < 1000


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0,), (0, 0, 2)])
def test_texts_of_no_characters_are_empty(shape: tuple[int, ...]) -> None:
    root = Group()
    dimensions = tuple(Dimension(f"d{n}", size) for n, size in enumerate(shape))
    values = np.zeros(shape, "S1")
    texts = Variable("t", root, dimensions, values.dtype, "char", read=values.__getitem__).texts()
    assert texts.shape == shape[:-1]
    assert set(texts.ravel()) <= {""}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("aggregated_dimensions", 'v:aggregated_data = "map: m uris: u identifiers: i" ;'),
        ("nca_dimensions", 'v:nca_array = "{}" ;'),
        ("cfa_dimensions", 'v:cfa_role = "cfa_variable" ; v:cfa_array = "{}" ;'),
    ],
)
@pytest.mark.parametrize("text", ["x " * 20_000, " ".join(f"n{i}" for i in range(7_000))])
def test_a_long_list_of_dimensions_ends_in_time(name: str, beside: str, text: str) -> None:
    with parse_cdl(
        f'netcdf a {{ dimensions: x = 2 ; variables: float v ; v:{name} = "{text}" ; {beside} data: v = 1 ; }}'
    ) as dataset:
        run(dataset, Options(data=True))  # rules and tables are loaded
        assert seconds(dataset) < 5
