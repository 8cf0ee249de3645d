"""Grids: when two are equal, and what is not listed."""

import pytest

from cfagg.errors import LimitError, ModelError
from cfagg.model import Grid


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (Grid.regular((10,), (3,)), Grid.regular((10,), (3,)), True),
        (Grid.regular((10,), (3,)), Grid([[0, 3, 6, 9, 12]], (10,)), True),
        (Grid.regular((10,), (3,)), Grid([[0, 3, 6, 9, 10]]), False),
        (Grid.regular((10,), (3,)), Grid.regular((10,), (4,)), False),
        (Grid.regular((3,), (3,)), Grid.regular((3,), (5,)), False),
        (Grid.regular((0,), (3,)), Grid.regular((0,), (5,)), True),
        (Grid.regular((2**60,), (1,)), Grid.regular((2**60,), (1,)), True),
    ],
)
def test_grids_are_equal_where_their_edges_are(a, b, same):
    assert (a == b) is same


def test_edges_whose_difference_wraps_around_do_not_increase():
    with pytest.raises(ModelError, match="edges increase strictly"):
        Grid([[0, 2**63 - 1, -(2**63), 5 - 2**63]])


def test_edges_of_more_chunks_than_any_array_has_are_not_listed():
    with pytest.raises(LimitError, match="too many edges"):
        Grid.regular((2**60,), (1,)).edges  # noqa: B018 - computed on access
