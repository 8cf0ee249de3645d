"""Hypothesis strategies shared by the tests: grids, selections, calendars, packings."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


@st.composite
def edges(draw, max_cells: int = 8, max_size: int = 12) -> np.ndarray:
    """Edges of one dimension: from no cell at all to `max_cells` cells of unequal sizes."""
    sizes = draw(st.lists(st.integers(1, max_size), max_size=max_cells))
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@st.composite
def slices(draw, length: int) -> slice:
    """Any slice that Python accepts on a dimension of `length`, of either sign and beyond both ends."""
    bound = st.none() | st.integers(-length - 3, length + 3)
    step = draw(st.none() | st.integers(-length - 2, length + 2).filter(bool))
    return slice(draw(bound), draw(bound), step)
