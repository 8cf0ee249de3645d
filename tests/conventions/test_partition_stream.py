"""Decoding an object with one long list in batches."""

import gc
import json

import numpy as np
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


#: Texts that look like the ends of elements, or hold colons.
ODD = st.sampled_from(
    ["", ":", "://", '"', "}, {", '}, {"a": 1', "}]", "]", "\\", '\\"}, {"', "a:b", "http://h/x:1", "\0", "é"]
)
RECORDS = st.dictionaries(ODD | st.text(max_size=3), VALUES | ODD | st.dictionaries(ODD, ODD, max_size=2), max_size=4)


@given(st.lists(RECORDS | VALUES, max_size=60), st.sampled_from([None, 0, 2]), st.sampled_from([3, 20, 4096]))
def test_elements_that_are_decoded_together_are_those_of_json(elements, indent, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_stream, "_FIRST", 1)
        patch.setattr(partition_stream, "BATCH", size)
        assert load(json.dumps({"Partitions": elements}, indent=indent))[1] == elements


def test_elements_are_decoded_together(monkeypatch):
    elements = [{"index": [i], "data": {"file": f"http://host/{i}"}, "d": {"x": True}} for i in range(20_000)]
    alone = []
    decode = partition_stream._decode
    monkeypatch.setattr(partition_stream, "_decode", lambda text, i: alone.append(i) or decode(text, i))
    assert load(json.dumps({"Partitions": elements}))[1] == elements
    assert len(alone) < 300


@pytest.mark.parametrize(
    "twice", ['"data": {"a": 1, "b": 2, "a": 1}', '"data": 1, "data": 2', '"d": [{"e": 1, "e": 1}]']
)
@pytest.mark.parametrize("value", ["1", '":"', '"://"', '"http://h:80/"'])
def test_a_key_that_occurs_twice_is_found_among_many(twice, value):
    records = [f'{{"index": {value}, "data": {{"b": {value}}}}}'] * 300
    for at in (0, 17, 150, 298, 299):
        text = ", ".join([*records[:at], f"{{{twice}}}", *records[at + 1 :]])
        with pytest.raises(ConventionError, match=rf"occurs twice in one JSON object \(in Partitions\[{at}\]\)"):
            load(f'{{"Partitions": [{text}]}}')


def test_broken_text_among_many_elements_is_told_with_its_place():
    text = json.dumps({"Partitions": [{"index": [i]} for i in range(300)]})
    for at in np.random.default_rng(0).integers(20, len(text), 60).tolist():
        broken = text[:at] + "\x01" + text[at:]
        with pytest.raises(json.JSONDecodeError) as expected:
            json.loads(broken)
        place = f"line {expected.value.lineno} column {expected.value.colno}: {expected.value.msg}"
        with pytest.raises(partition_stream.NotJSONError) as found:
            load(broken)
        assert found.value.message == place


@pytest.mark.parametrize("before", [True, False])
def test_the_search_for_cycles_goes_on_as_before(before):
    (gc.enable if before else gc.disable)()
    try:
        load('{"Partitions": [{}]}')
        assert gc.isenabled() == before
        with pytest.raises(ConventionError):
            load('{"Partitions": [{}')
        assert gc.isenabled() == before
    finally:
        gc.enable()


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
