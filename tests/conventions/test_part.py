"""The small grammar of `part`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.conventions import limits, part
from cfagg.errors import ConventionError, LimitError
from tests import oracles, strategies


def indices(text, shape):
    return [list(i) if isinstance(i, range) else i.tolist() for i in part.parse(text, shape)]


def test_the_texts_example():
    assert indices("[(2, 6, 1), [1,3,4,7], (0, 12, 2)]", (6, 8, 12)) == [
        [2, 3, 4, 5],
        [1, 3, 4, 7],
        [0, 2, 4, 6, 8, 10],
    ]


def test_empty_brackets_mean_everything():
    assert indices("[]", (2, 3)) == indices(" [ ] ", (2, 3)) == [[0, 1], [0, 1, 2]]


def test_a_range_with_stop_minus_1_reaches_index_0():
    assert indices("[(5, -1, -1)]", (6,)) == [[5, 4, 3, 2, 1, 0]]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[[0, 2, 4]]", range),
        ("[[4, 3]]", range),
        ("[[3]]", range),
        ("[[0, 2, 3]]", np.ndarray),
        ("[[1, 1]]", np.ndarray),
    ],
)
def test_only_lists_that_follow_no_rule_become_arrays(text, kind):
    assert isinstance(part.parse(text, (5,))[0], kind)


@given(st.data())
def test_any_part_takes_what_the_text_says(data):
    taken = [data.draw(strategies.takings(data.draw(st.integers(1, 5)))) for _ in range(data.draw(st.integers(1, 3)))]
    shape = tuple(n for _, n, _ in taken)
    text = f"[{', '.join(t for _, _, t in taken)}]"
    assert indices(text, shape) == [i for i, _, _ in taken] == oracles.part_indices(text, shape)
    assert part.counts(part.parse(text, shape)) == tuple(len(i) for i, _, _ in taken)


@given(st.data())
def test_the_canonical_text_takes_the_same_and_is_its_own_canonical_text(data):
    taken = [data.draw(strategies.takings(data.draw(st.integers(1, 5)))) for _ in range(data.draw(st.integers(1, 3)))]
    shape = tuple(n for _, n, _ in taken)
    canonical = part.canonical([i for i, _, _ in taken], shape)
    assert indices(canonical, shape) == [i for i, _, _ in taken]
    assert part.canonical(part.parse(canonical, shape), shape) == canonical


def test_equal_indices_have_one_canonical_text():
    same = ["[(0, 5, 2)]", "[(0, 6, 2)]", "[[0, 2, 4]]"]
    assert {part.canonical(part.parse(t, (6,)), (6,)) for t in same} == {"[(0, 6, 2)]"}


def test_a_range_of_10_to_the_17_stays_a_range():
    assert part.parse("[(0, 100000000000000000, 1)]", (10**17,)) == (range(10**17),)


def test_a_list_at_the_cap_is_read_and_one_above_is_a_limit(monkeypatch):
    monkeypatch.setattr(limits, "MAX_PART_LIST", 4)
    assert indices("[[0,2,3]]", (4,)) == [[0, 2, 3]]
    with pytest.raises(LimitError, match="more than 4 indices"):
        part.parse("[[0,2,3,0,0,0]]", (4,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "square brackets"),
        ("[", "square brackets"),
        ("(0, 3, 1)", "square brackets"),
        ("[(0, 3)]", "expected"),
        ("[(0, 3, 1, 1)]", "expected"),
        ("[(0, 3, 0)]", "step of .* is 0"),
        ("[(0, 3, 1)", "square brackets"),
        ("[(0, 3, 1) (0, 3, 1)]", "expected a comma"),
        ("[(0, 3, 1),]", "expected"),
        ("[2]", "expected"),
        ("[[0, 1.5]]", "expected"),
        ("[[0, True]]", "expected"),
        ("[[[0]]]", "expected"),
        ("[(a, b, c)]", "expected"),
        ("[(0, 9999999999999999999, 1)]", "expected"),
        ("[[]]", "selects nothing from dimension 0"),
        ("[(3, 3, 1)]", "selects nothing"),
        ("[(0, -1, 1)]", "selects nothing"),
        ("[(0, 4, 1)]", "index 3 is outside dimension 0"),
        ("[[-1]]", "index -1 is outside"),
        ("[(2, -2, -1)]", "index -1 is outside"),
        ("[(0, 3, 1), (0, 3, 1)]", "2 dimensions, its sub-array has 1"),
    ],
)
def test_a_part_outside_the_grammar_or_the_sub_array_is_an_error(text, message):
    with pytest.raises(ConventionError, match=message):
        part.parse(text, (3,))


def test_canonical_refuses_indices_outside_the_sub_array():
    with pytest.raises(ConventionError, match="outside"):
        part.canonical([range(4)], (3,))
    with pytest.raises(ConventionError, match="2 dimensions"):
        part.canonical([range(3), range(3)], (3,))
    with pytest.raises(ConventionError, match="flat list"):
        part.canonical([[[0]]], (3,))
