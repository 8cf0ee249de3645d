"""Composing part, direction and selection, and reading in few runs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cfagg.arrays.subarray import assemble, compose, push


@st.composite
def indices(draw):
    """Indices of a sub-array axis: a range of either sign, or a list without rule."""
    n = draw(st.integers(1, 12))
    if draw(st.booleans()):
        return np.array(draw(st.permutations(range(n + 3)))[:n])
    step = draw(st.sampled_from([1, 2, 5, -1, -3]))
    start = draw(st.integers(0, 4)) + (0 if step > 0 else -step * (n - 1))
    return range(start, start + step * n, step)


@given(indices(), st.booleans(), st.data())
def test_compose_equals_numpy(part, flip, data):
    n = len(part)
    if data.draw(st.booleans()):
        a = data.draw(st.integers(0, n - 1))
        b = data.draw(st.integers(a + 1, n))
        chosen = slice(a, b, data.draw(st.integers(1, 4)))
    else:
        chosen = np.array(sorted(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=6))))
    partition = np.asarray(part)[::-1] if flip else np.asarray(part)
    expected = partition[chosen]
    found = np.asarray(compose(part, chosen, flip))
    np.testing.assert_array_equal(found[::-1] if flip else found, expected)


@given(st.lists(st.integers(0, 60), max_size=8), st.sampled_from([1, 2**14, 2**20]))
def test_runs_are_ascending_disjoint_and_give_the_elements_in_their_order(wanted, element_bytes):
    axis = push(np.array(wanted, int), element_bytes)
    read = [i for run in axis.runs for i in range(run.start, run.stop, run.step)]
    assert read == sorted(set(read))
    assert axis.count == len(read)
    picked = np.array(read, int)[slice(None) if axis.pick is None else axis.pick]
    assert picked.tolist() == wanted


def test_far_apart_indices_are_read_in_runs_and_near_ones_in_one():
    far = push(np.array([0, 1, 10**6, 10**6 + 1]), 1000)
    assert far.runs == (slice(0, 2, 1), slice(10**6, 10**6 + 2, 1))
    near = push(np.array([0, 3, 7]), 1000)
    assert near.runs == (slice(0, 8, 1),)


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=3))
def test_assembled_runs_equal_numpy(wanted):
    source = np.arange(10 ** len(wanted)).reshape((10,) * len(wanted))
    axes = [push(np.array(w), 2**15) for w in wanted]
    np.testing.assert_array_equal(assemble(axes, source.dtype, lambda key: source[key]), source[np.ix_(*wanted)])


def test_a_gap_within_a_chunk_is_read_and_no_gap_between_chunks() -> None:
    found = push(np.array([1300, 2, 900, 2]), 10**6, 1000)
    assert found.runs == (slice(2, 901, 1), slice(1300, 1301, 1))
    assert np.array_equal(np.r_[2:901, 1300][found.pick], [1300, 2, 900, 2])
