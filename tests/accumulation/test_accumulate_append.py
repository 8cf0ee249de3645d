"""Arrays that grow: what is appended equals what is built of the whole, and only what is new is read."""

import tempfile
from pathlib import Path

import numpy as np
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.accumulation import freshness
from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.group import open_group
from tests.accumulation import comparing, reference

DIMS = ("time", "lat", "lon")
COMBINATIONS = [("time",), ("lat",), ("lon",), ("lat", "lon"), ("time", "lat"), ("time", "lat", "lon")]


def grow(store: Path, raw: np.ndarray, axis: int, start: int) -> None:
    """Make an array longer along an axis and write what is new."""
    array = zarr.open_group(store, mode="r+")["tas"]
    array.resize(raw.shape)
    place = (slice(None),) * axis + (slice(start, None),)
    array[place] = raw[place]


@st.composite
def histories(draw):
    shape = [draw(st.integers(1, 9)) for _ in DIMS]
    axis = draw(st.integers(0, 2))
    steps = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    final = list(shape)
    final[axis] += sum(steps)
    dtype = draw(st.sampled_from(["f4", "i2"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    raw = (rng.normal(scale=20, size=final) if dtype == "f4" else rng.integers(0, 99, final)).astype(dtype)
    # Nothing, something, or only the old or only the new part is missing.
    where = draw(st.sampled_from(["no", "all", "old", "new"]))
    holes = rng.random(final) < (0.0 if where == "no" else 0.3)
    half = (slice(None),) * axis + ((slice(shape[axis], None) if where == "old" else slice(0, shape[axis])),)
    if where in ("old", "new"):
        holes[half] = False
    raw[holes] = np.nan if dtype == "f4" else 77
    chunks = [draw(st.integers(1, 5)) for _ in DIMS]
    stride = {d: draw(st.integers(1, 3)) for d in DIMS}
    weight_dims = draw(st.sampled_from([(), ("lat",), ("lat", "lon")]))
    combinations = draw(st.lists(st.sampled_from(COMBINATIONS), min_size=1, max_size=4, unique=True))
    stride = {d: n for d, n in stride.items() if any(d in c for c in combinations)}
    full, form = draw(st.booleans()), draw(st.sampled_from([2, 3]))
    return raw, shape, axis, steps, chunks, stride, combinations, weight_dims, full, form


@given(histories())
@settings(max_examples=40, deadline=None)
def test_appending_step_by_step_equals_building_the_whole(history):
    raw, shape, axis, steps, chunks, stride, combinations, weight_dims, full, form = history
    source = {
        "zarr_format": form,
        "attributes": {"missing_value": 77} if raw.dtype.kind == "i" else {},
        "coordinates": False,
        "fill_value": 250 if raw.dtype.kind == "i" else -12345.0,
    }
    options = {"fills": ([source["fill_value"]] if form == 2 else []) + ([77] if raw.dtype.kind == "i" else [])}
    lengths = [raw.shape[DIMS.index(d)] for d in weight_dims]
    # Weights stay the same while the array grows.
    weighted = bool(weight_dims) and DIMS[axis] not in weight_dims and all(n > 1 for n in lengths)
    weights = None
    if weighted:
        field = np.random.default_rng(1).integers(1, 5, lengths) / 4
        weights = field.reshape([raw.shape[i] if d in weight_dims else 1 for i, d in enumerate(DIMS)])
        options |= {"weights": field, "weight_dims": weight_dims}
    with tempfile.TemporaryDirectory() as folder:
        expected = comparing.expect(
            Path(folder) / "a.zarr",
            raw,
            DIMS,
            chunks,
            combinations,
            source,
            stride=stride,
            statistics=combinations if full else (),
            **options,
        )
        store = Path(folder) / "b.zarr"
        start = shape[axis]
        first = raw[(slice(None),) * axis + (slice(0, start),)]
        reference.write_source(store, "tas", first, DIMS, chunks, **source)
        statistics = ("min", "max", "std") if full else "chunks"
        accumulate(store, "tas", combinations, stride=stride, weights=weights, statistics=statistics)
        for step in steps:
            grow(store, raw[(slice(None),) * axis + (slice(0, start + step),)], axis, start)
            start += step
            report = accumulate(store, "tas", append=True)
            assert report.action in ("appended", "rebuilt")
        comparing.assert_same(store, expected, "tas", scale=20.0 * raw.size)
        freshness.check(open_group(store, "tas"))
