"""Decoding an object with one long list in batches."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.conventions import partition_stream
from cfagg.errors import ConventionError, LimitError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def load(text):
    seen = []

    def batch(elements, first, head):
        assert first == len(seen)
        seen.extend(elements)

    return partition_stream.load(text, batch), seen


@given(st.dictionaries(st.text(), VALUES, max_size=3), st.lists(VALUES, max_size=5), st.sampled_from([None, 2]))
def test_the_object_is_what_json_says_and_the_list_is_handed_on(head, elements, indent):
    head.pop("Partitions", None)
    text = json.dumps({**head, "Partitions": elements}, indent=indent)
    assert load(text) == ({**head, "Partitions": range(len(elements))}, elements)


def test_batches_hold_no_more_than_their_size():
    sizes = []
    n = 2 * partition_stream.BATCH + 5
    partition_stream.load(json.dumps({"Partitions": [{}] * n}), lambda e, first, head: sizes.append((first, len(e))))
    assert sizes == [(0, 4096), (4096, 4096), (8192, 5)]


def test_what_stands_before_the_list_is_known_to_each_batch():
    heads = []
    partition_stream.load('{"a": 1, "Partitions": [0], "b": 2}', lambda e, first, head: heads.append(head))
    assert heads == [{"a": 1}]


def test_a_value_that_is_no_list_is_not_mistaken_for_one():
    assert load('{"Partitions": 3}') == ({"Partitions": 3}, [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{1: 2}",
        '{"a"}',
        '{"a" 1}',
        '{"a": }',
        '{"a": 1,}',
        '{"a": 1 "b": 2}',
        "{} 1",
        '{"Partitions": [',
        '{"Partitions": [1 2]}',
        '{"Partitions": [1,]}',
        '{"Partitions": [,]}',
        '{"Partitions": []',
        "{'a': 1}",
        "[] []",
    ],
)
def test_text_that_is_not_json_is_told_with_its_place(text):
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    with pytest.raises(partition_stream.NotJSONError, match=r"^line 1 column \d+: "):
        load(text)


@pytest.mark.parametrize("text", ['{"a": {"b": 1, "b": 1}}', '{"a": 1, "a": 1}', '{"Partitions": [{"c": 1, "c": 2}]}'])
def test_a_key_that_stands_twice_is_an_error(text):
    with pytest.raises(ConventionError, match="occurs twice"):
        load(text)


def test_too_deep_and_too_long_are_limits():
    with pytest.raises(LimitError, match="nested"):
        load('{"a": ' + "[" * 10**5)
    with pytest.raises(LimitError, match="digits"):
        load('{"a": ' + "1" * 5000 + "}")
