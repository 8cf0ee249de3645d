"""Slices of aggregations that are aggregations again."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cfagg.writing.extracts import extract
from tests.conventions.test_nca import assemble, parse
from tests.effort import examples
from tests.strategies import nca_documents


@settings(max_examples=examples(100))
@given(case=nca_documents(), choose=st.data())
def test_any_box_of_any_aggregation_has_its_values(case, choose):
    document, dims, sizes, arrays, master = case
    box = []
    for n in master.shape:
        start = choose.draw(st.integers(0, n - 1))
        box.append((start, choose.draw(st.integers(start + 1, n))))
    found = extract(parse(document, " ".join(dims), sizes), tuple(box), parts=True)
    assert found is not None
    np.testing.assert_array_equal(assemble(found, arrays), master[tuple(slice(*b) for b in box)])


@settings(max_examples=examples(100))
@given(case=nca_documents(), choose=st.data())
def test_a_box_is_an_aggregation_without_parts_where_its_ends_are_ends_of_partitions(case, choose):
    document, dims, sizes, arrays, master = case
    whole = parse(document, " ".join(dims), sizes)
    box = []
    for edges in whole.grid.edges:
        assume(len(edges) > 1)
        first = choose.draw(st.integers(0, len(edges) - 2))
        box.append((int(edges[first]), int(edges[choose.draw(st.integers(first + 1, len(edges) - 1))])))
    found = extract(whole, tuple(box), parts=False)
    assert found is not None
    np.testing.assert_array_equal(assemble(found, arrays), master[tuple(slice(*b) for b in box)])
    ends = zip(box, whole.grid.edges, strict=True)
    inside = [(a, b - 1) if b - 1 not in e and b - 1 > a else (a, b) for (a, b), e in ends]
    assert (extract(whole, tuple(inside), parts=False) is None) is (inside != box)
