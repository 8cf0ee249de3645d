"""Aggregations to show: built in memory, nothing is read."""

from __future__ import annotations

from functools import cache

import numpy as np

from cfagg.model import Aggregation, Grid, Layout, Partitions


def series(
    count: int, *, size: int = 12, names=None, shape: tuple[int, ...] = (64, 128), attributes=None, source: str = ""
) -> Aggregation:
    """`count` files along time, then whole latitudes and longitudes."""
    names = [f"data/tas_{1950 + i}.nc" for i in range(count)] if names is None else names
    dims = ("time", "lat", "lon")[: 1 + len(shape)]
    partitions = Partitions.build(
        count, file=np.arange(count), address=0, files=names, addresses=["tas"], layouts=[Layout(dims)]
    )
    grid = Grid([np.arange(count + 1) * size, *([0, n] for n in shape)])
    text = {"standard_name": "air_temperature"} if attributes is None else attributes
    return Aggregation("tas", dims, grid.shape, "f4", grid, partitions, units="K", attributes=text, source=source)


def boxes() -> Aggregation:
    """Figure 1 of the NCA text: ten sub-arrays in one file, seen as 4 x 6 partitions."""
    place = np.array([[0, 1, 1, 2, 2, 2], [3, 3, 3, 3, 3, 4], [5, 5, 6, 6, 6, 4], [7, 7, 7, 8, 9, 9]])
    partitions = Partitions.build(
        24,
        file=0,
        address=place.ravel(),
        files=["figure1_boxes.nc"],
        addresses=[f"box{i}" for i in range(10)],
        layouts=[Layout(("y", "x"))],
    )
    return Aggregation("p", ("y", "x"), (8, 7), "i4", Grid([[0, 2, 3, 7, 8], [0, 1, 3, 4, 5, 6, 7]]), partitions)


def cube(*matrix: int, size: int = 10, present=True) -> Aggregation:
    """A partition matrix over as many dimensions as wanted, one file a partition."""
    count = int(np.prod(matrix))
    dims = ("time", "lat", "lon", "level", "member")[: len(matrix)]
    partitions = Partitions.build(
        count,
        file=np.arange(count),
        files=[f"part{i}.nc" for i in range(count)],
        present=present,
        layouts=[Layout(dims)],
    )
    grid = Grid([np.arange(m + 1) * size for m in matrix])
    return Aggregation("cube", dims, grid.shape, "f8", grid, partitions)


@cache
def million() -> Partitions:
    """A million partitions in as many files; any grid of as many cells may have them."""
    return cube(1_000_000).partitions


def of_a_million(*matrix: int) -> Aggregation:
    """A million partitions as a matrix of this shape."""
    dims = ("time", "lat", "lon")[: len(matrix)]
    grid = Grid([np.arange(m + 1) * 10 for m in matrix])
    return Aggregation("cube", dims, grid.shape, "f8", grid, million())


def scalar() -> Aggregation:
    """An array without dimensions."""
    partitions = Partitions.build(1, file=0, files=["one.nc"], layouts=[Layout(())])
    return Aggregation("s", (), (), "f4", Grid([]), partitions, directions=False)
