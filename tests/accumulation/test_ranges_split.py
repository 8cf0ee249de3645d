"""Ranges as signed sums and cells."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cfagg.accumulation.ranges import Runs, fold, split
from tests import strategies as s
from tests.oracles import fold_memberships, memberships


def together(core, edge, samples, length):
    """How often each cell counts in the samples and the cells of a split."""
    out = fold_memberships(edge, length)
    for sample, group in zip(fold_memberships(core, len(samples)).T, samples, strict=True):
        out[:, :group] += sample[:, None]
    return out


@given(st.data(), st.integers(0, 24))
def test_a_fold_takes_the_cells_of_the_ranges(data, length):
    wanted = data.draw(s.runs(length))
    found = fold(wanted)
    assert (fold_memberships(found, length) == memberships(wanted, length)).all()
    assert (found.start < found.stop).all()
    assert (found.stop[:-1] <= found.start[1:]).all()


@given(st.data(), st.integers(0, 24))
def test_core_and_edge_together_are_the_ranges(data, length):
    wanted, samples = data.draw(s.runs(length)), data.draw(s.samples(length))
    core, edge = split(wanted, samples)
    assert (together(core, edge, samples, length) == memberships(wanted, length)).all()


@given(st.data(), st.integers(1, 24))
def test_in_each_interval_no_choice_would_correct_fewer_cells(data, length):
    wanted, samples = data.draw(s.runs(length)), data.draw(s.samples(length))
    _, edge = split(wanted, samples)
    corrected = fold_memberships(edge, length).any(0)
    members = memberships(wanted, length)
    for a, b in itertools.pairwise([0, *samples]):
        _, times = np.unique(members[:, a:b], axis=1, return_counts=True)
        assert corrected[a:b].sum() == b - a - times.max()


def test_ranges_between_samples_need_no_cells():
    core, edge = split(Runs([4, 12], [12, 20], [0, 1], 2), np.array([4, 8, 12, 16, 20]))
    assert len(edge) == 0
    assert core.start.tolist() == [0, 2, 4]


def test_cells_between_two_groups_are_corrected_in_both_and_read_once():
    _, edge = split(Runs([0, 9], [9, 20], [0, 1], 2), np.array([10, 20]))
    assert (edge.start.tolist(), edge.stop.tolist()) == ([9], [10])
    assert sorted(zip(edge.group.tolist(), edge.coefficient.tolist(), strict=True)) == [(0, -1), (1, 1)]


def test_cells_behind_the_last_sample_are_read_singly():
    core, edge = split(Runs([0], [23], [0]), np.array([10, 20]))
    assert core.start.tolist() == [1]
    assert (edge.start.tolist(), edge.stop.tolist()) == ([20], [23])
