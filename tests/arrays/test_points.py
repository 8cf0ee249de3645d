"""Which single elements are read together."""

from pathlib import Path

import netCDF4
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cfagg
from cfagg.arrays import points
from cfagg.arrays.reader import Reader
from cfagg.model import Grid

SHAPE = (7, 9, 5)
GRIDS = [Grid.regular(SHAPE, (3, 9, 2)), Grid([[0, 1, 6, 7], [0, 9], [0, 2, 5]], SHAPE)]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("chunks", [None, (2, 4, 5)])
@given(
    st.sets(st.integers(0, 2), min_size=1),
    st.lists(st.tuples(*(st.integers(0, n - 1) for n in SHAPE)), min_size=1),
    st.tuples(*map(st.slices, SHAPE)),
    st.sampled_from([1, 6, 40]),
)
def test_each_element_is_in_one_part_and_so_is_each_chunk(
    grid: Grid,
    chunks: tuple[int, ...] | None,
    listed: set[int],
    places: list[tuple[int, ...]],
    ranges: tuple[slice, ...],
    together: int,
) -> None:
    lists = {d: np.array([p[d] for p in places]) for d in sorted(listed)}
    slices = {d: range(SHAPE[d])[ranges[d]] for d in range(3) if d not in listed}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(points, "_TOGETHER", together)
        patch.setattr(points, "_EACH", 1)
        found = list(points.parts(grid, lists, slices, lambda _: chunks))
    count = np.zeros([len(places), *map(len, slices.values())], int)
    seen: set[tuple[int, ...]] = set()
    for part in found:
        count[(part.points, *part.target)] += 1
        assert [r[t] for r, t in zip(slices.values(), part.target, strict=True)] == list(part.ranges)
        if chunks is not None and all(part.ranges):
            index = [lists[d][part.points] if d in lists else np.array(slices[d]) for d in range(3)]
            for d, r in zip(slices, part.ranges, strict=True):
                index[d] = np.array(r)
            chunk = [points._cell(grid, d, i, chunks[d]) for d, i in enumerate(index)]
            here = {
                tuple(int(c[k] if d in lists else c[j[list(slices).index(d)]]) for d, c in enumerate(chunk))
                for k in range(len(part.points))
                for j in np.ndindex(*map(len, part.ranges))
            }
            assert not here & seen
            seen |= here
    assert (count == 1).all()


def test_no_chunk_is_decoded_twice_for_series_at_scattered_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (6, 300, 400)
    values = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, n in zip("tyx", shape, strict=True):
            file.createDimension(name, n)
        file.createVariable("v", "i4", ("t", "y", "x"), chunksizes=(1, 300, 400), zlib=True)[:] = values
    monkeypatch.setattr(points, "_TOGETHER", 5000)
    asked: list[int] = []
    read = Reader.read
    monkeypatch.setattr(Reader, "read", lambda self, s: asked.append(len(range(6)[s[0]])) or read(self, s))
    places = [np.random.default_rng(n).integers(0, n, 40) for n in shape[1:]]
    assert np.array_equal(cfagg.open_array(tmp_path / "a.nc", "v")[:, *places], values[:, *places])
    assert sum(asked) == 6
