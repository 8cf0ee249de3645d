"""What a part takes along an axis, chunk by chunk."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cfagg.accumulation.contract import locate
from cfagg.accumulation.query_plan import extent
from cfagg.accumulation.ranges import Pick, fold
from cfagg.model import Regular
from tests import strategies as s
from tests.oracles import memberships


@st.composite
def axes(draw):
    """Edges of chunks, the last of which may overhang, and the length of the axis."""
    if draw(st.booleans()):
        length = draw(st.integers(1, 24))
        return Regular(length, draw(st.integers(1, length + 2))), length
    edges = draw(s.edges())
    return edges, int(edges[-1])


def expanded(edges, length):
    return np.minimum(edges.expand() if isinstance(edges, Regular) else edges, length)


def taken(part, edges, length):
    """Return for each chunk the positions in it that a part takes."""
    out = []
    at = part.positions if isinstance(part, Pick) else None
    if at is None:
        at = np.concatenate([np.arange(a, b) for a, b in zip(part.start, part.stop, strict=True)] or [[]])
    cuts = expanded(edges, length)
    for a, b in itertools.pairwise(cuts):
        out.append(np.unique(at[(at >= a) & (at < b)]).astype(int))
    return out


@st.composite
def picks(draw, length):
    positions = draw(st.lists(st.integers(0, length - 1), max_size=8)) if length else []
    if draw(st.booleans()):
        positions = sorted(set(positions))
    return Pick(np.array(positions, np.int64))


@given(st.data(), axes())
def test_an_extent_counts_chunks_and_cells(data, axis):
    edges, length = axis
    part = data.draw(st.one_of(picks(length), s.runs(length).map(fold)))
    cuts, by_chunk = expanded(edges, length), taken(part, edges, length)
    touched = [k for k, t in enumerate(by_chunk) if t.size]
    found = extent(part, edges, length)
    assert found.chunks == len(touched)
    assert found.decoded == sum(cuts[k + 1] - cuts[k] for k in touched)
    assert found.boxed == sum(by_chunk[k][-1] - by_chunk[k][0] + 1 for k in touched)
    assert found.cells == sum(t.size for t in by_chunk)


@given(st.data(), axes())
def test_kept_positions_come_from_their_chunks_to_their_places(data, axis):
    edges, length = axis
    part = data.draw(picks(length))
    cuts = expanded(edges, length)
    out = np.full(len(part), -1)
    for local in locate(part, edges, length):
        chunk = np.arange(cuts[local.chunk], cuts[local.chunk + 1])
        out[local.target] = chunk[local.low : local.high][local.take]
        assert out[local.target].size == local.width
    assert out.tolist() == part.positions.tolist()


@given(st.data(), axes())
def test_segments_of_all_chunks_are_those_of_the_fold(data, axis):
    edges, length = axis
    wanted = data.draw(s.runs(length))
    cuts = expanded(edges, length)
    out = np.zeros((wanted.groups, length), int)
    for local in locate(fold(wanted), edges, length):
        groups = np.arange(wanted.groups)[local.target]
        assert len(groups) == local.width
        low = cuts[local.chunk] + local.low
        for segment, target, coefficient in local.entries:
            out[groups[target], low + local.starts[segment] : low + local.stops[segment]] += coefficient
    assert (out == memberships(wanted, length)).all()
