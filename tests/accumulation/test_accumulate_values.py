"""What is built equals sums of the whole array in NumPy, whatever its dimensions, type, chunks, gaps and weights."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.accumulation.accumulating import accumulate
from tests.accumulation import comparing, reference
from tests.effort import examples, types

DIMS = ("time", "z", "lat", "lon")


@st.composite
def cases(draw):
    """An array, and what to accumulate of it."""
    rank = draw(st.integers(1, 4))
    dims = DIMS[4 - rank :]
    variable = draw(st.booleans())
    most = {1: 40, 2: 12, 3: 9, 4: 6}[rank]
    shape, chunks = [], []
    for _ in dims:
        if variable:
            lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=most // 2))
            chunks.append(lengths)
            shape.append(sum(lengths))
        else:
            shape.append(draw(st.integers(1, most)))
            chunks.append(draw(st.integers(1, shape[-1] + 1)))
    dtype = draw(st.sampled_from(types("f4", "i2", "f8", "u1", "i4", "u8")))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    raw = (rng.normal(scale=20, size=shape) if dtype[0] == "f" else rng.integers(0, 99, shape)).astype(dtype)
    attributes, options = {}, {}
    if draw(st.booleans()):
        holes = rng.random(shape) < draw(st.sampled_from([0.02, 0.5, 1.0]))
        if dtype[0] == "f":
            raw[holes] = rng.choice([np.nan, np.inf, -np.inf, -999], holes.sum())
            options["fills"] = [-999.0]
            attributes["missing_value"] = -999.0
        else:
            raw[holes] = 77
            options["fills"] = [77]
            attributes["_FillValue"] = 77
    if dtype[0] != "f" and draw(st.booleans()):
        attributes |= {"valid_max": 90}
        options["valid_max"] = 90
        if draw(st.booleans()):
            attributes |= {"scale_factor": 0.5, "add_offset": -3.0}
            options["packing"] = (0.5, -3.0)
    every = [c for n in range(1, rank + 1) for c in itertools.combinations(dims, n)]
    combinations = draw(st.lists(st.sampled_from(every), min_size=1, max_size=4, unique=True))
    used = sorted({d for c in combinations for d in c})
    stride = {d: draw(st.integers(1, 5)) for d in used if draw(st.booleans())}
    weighted = draw(st.sampled_from([(), (), *every]))
    if weighted:
        lengths = [shape[dims.index(d)] for d in weighted]
        # Lengths of 1 are not kept as dimensions of weights.
        if all(n > 1 for n in lengths):
            options |= {"weights": rng.integers(0, 5, lengths) / 4, "weight_dims": weighted}
    full = draw(st.booleans())
    zarr_format = 3 if variable else draw(st.sampled_from([2, 3]))
    return raw, dims, chunks, combinations, stride, attributes, options, full, zarr_format


@given(cases())
@settings(max_examples=examples(45))
def test_every_array_equals_sums_of_the_whole(case):
    raw, dims, chunks, combinations, stride, attributes, options, full, form = case
    source = {"zarr_format": form, "attributes": attributes, "coordinates": False}
    if form == 2:
        # In Zarr v2 the fill value means missing; one that is not there leaves that to the attributes.
        source["fill_value"] = 250 if raw.dtype.kind in "iu" else -12345.0
        options = {**options, "fills": [source["fill_value"], *[f for f in options.get("fills", []) if f != 77]]}
        if "_FillValue" in attributes:
            source["attributes"] = {k: v for k, v in attributes.items() if k != "_FillValue"} | {"missing_value": 77}
            options["fills"] = [source["fill_value"], 77]
    with tempfile.TemporaryDirectory() as folder:
        expected = comparing.expect(
            Path(folder) / "a.zarr",
            raw,
            dims,
            chunks,
            combinations,
            source,
            stride=stride,
            statistics=combinations if full else (),
            **options,
        )
        built = Path(folder) / "b.zarr"
        reference.write_source(built, "tas", raw, dims, chunks, **source)
        weights = None
        if "weights" in options:
            place = [raw.shape[i] if d in options["weight_dims"] else 1 for i, d in enumerate(dims)]
            weights = options["weights"].reshape(place)
        report = accumulate(
            built,
            "tas",
            combinations,
            stride=stride,
            weights=weights,
            statistics=("min", "max", "std") if full else "chunks",
        )
        assert report.action == "built"
        comparing.assert_same(built, expected, "tas", scale=20.0 * raw.size)
