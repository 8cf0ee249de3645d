"""Arrays that were cut into files in any way come back as they were."""

from __future__ import annotations

import itertools
import pickle
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import numpy.testing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg

NAMES = ("time", "height", "latitude", "longitude")
UNITS = {"time": "days since 2000-01-01", "height": "m", "latitude": "degrees_north", "longitude": "degrees_east"}

#: How values are stored, in units that are those of the array times a power of 2 that scales them.
STORED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("f8", {}),
    ("f4", {}),
    ("f4", {"_FillValue": np.float32(-999)}),
    ("f8", {"_FillValue": 1e20}),
    ("i2", {"_FillValue": np.int16(-32768), "scale_factor": 0.5, "add_offset": 8.0}),
    ("i4", {"_FillValue": np.int32(-1000), "scale_factor": 0.25}),
    ("i2", {"missing_value": np.int16(31000)}),
)


@dataclass(frozen=True)
class Cut:
    """An array and the files that it is cut into."""

    names: tuple[str, ...]
    whole: np.ndarray
    edges: tuple[tuple[int, ...], ...]
    seed: int
    kinds: tuple[int, ...]
    order: bool
    flips: bool
    scalars: bool
    origins: bool


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    names = NAMES[: draw(st.integers(1, 4))]
    shape = tuple(draw(st.integers(1, 5)) for _ in names)
    edges = tuple(tuple(sorted({0, n, *draw(st.lists(st.integers(0, n), max_size=3))})) for n in shape)
    seed = draw(st.integers(0, 2**32 - 1))
    whole = np.random.default_rng(seed).integers(-100, 100, shape) * 1.0
    if draw(st.booleans()):
        whole[np.random.default_rng(seed + 1).random(shape) < 0.2] = np.nan
    kinds = tuple(draw(st.sets(st.integers(0, len(STORED) - 1), min_size=1, max_size=3)))
    return Cut(names, whole, edges, seed, kinds, *(draw(st.booleans()) for _ in range(4)))


def write(cut: Cut, folder: Path) -> list[str]:
    """Write the files."""
    rng = np.random.default_rng(cut.seed)
    spans = [list(itertools.pairwise(e)) for e in cut.edges]
    files = []
    for number, box in enumerate(itertools.product(*spans)):
        part = cut.whole[tuple(slice(a, b) for a, b in box)]
        kind, own = STORED[cut.kinds[rng.integers(len(cut.kinds))]]
        if kind[0] == "i" and not {"_FillValue", "missing_value"} & own.keys() and np.isnan(part).any():
            kind, own = STORED[0]
        path = folder / f"{number}.nc"
        with netCDF4.Dataset(path, "w") as file:
            coordinates = [np.arange(a, b, dtype="f8") for a, b in box]
            for k in range(len(box)):
                if cut.flips and rng.integers(2):
                    coordinates[k] = coordinates[k][::-1]
                    part = np.flip(part, k)
            bare = [
                k for k, (a, b) in enumerate(box) if b - a == 1 and cut.scalars and len(spans[k]) == cut.whole.shape[k]
            ]
            stay = [k for k in range(len(box)) if k not in bare]
            for k, name in enumerate(cut.names):
                if k in stay:
                    file.createDimension(name, None if k == 0 and rng.integers(2) else len(coordinates[k]))
                made = file.createVariable(name, "f8", () if k in bare else (name,))
                made.standard_name = name
                made.units = UNITS[name]
                values = coordinates[k]
                if name == "time" and cut.origins:
                    back = int(rng.integers(3))
                    made.units = f"hours since {2000 - back}-01-01"
                    values = (values + sum(366 if 2000 - y == 1996 else 365 for y in range(1, back + 1))) * 24
                made[...] = values[0] if k in bare else values
            dims = [cut.names[k] for k in stay]
            order = list(rng.permutation(len(dims))) if cut.order else list(range(len(dims)))
            stored = part.squeeze(tuple(bare)).transpose(order)
            fill = own.get("_FillValue")
            made = file.createVariable("tas", kind, [dims[k] for k in order], fill_value=fill)
            made.standard_name = "air_temperature"
            made.units = "K"
            made.coordinates = " ".join(cut.names[k] for k in bare) or "nothing"
            if not bare:
                del made.coordinates
            made.setncatts({k: v for k, v in own.items() if k != "_FillValue"})
            made.set_auto_maskandscale(False)
            missing = fill if fill is not None else own.get("missing_value", np.nan)
            packed = (stored - own.get("add_offset", 0.0)) / own.get("scale_factor", 1.0)
            made[...] = np.where(np.isnan(stored), missing, packed).astype(kind)
        files.append(str(path))
    return [files[k] for k in rng.permutation(len(files))]


def upright(array: Any, cut: Cut) -> np.ndarray:
    """Return the values in the order of dimensions and the directions of the original, with all of its dimensions."""
    missing = [n for n in cut.names if n not in array.dims]
    array = array.expand_dims(missing) if missing else array
    return array.sortby(list(cut.names)).transpose(*cut.names).values


def check(cut: Cut) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder = Path(name)
        files = write(cut, folder)
        found = cfagg.aggregate(files)
        assert list(found.data_vars) == ["tas"]
        tas = found.tas
        npt.assert_array_equal(upright(tas, cut), cut.whole)
        npt.assert_array_equal(
            upright(tas.isel({tas.dims[0]: slice(None, None, -1)}) if tas.dims else tas, cut), cut.whole
        )
        npt.assert_array_equal(upright(pickle.loads(pickle.dumps(tas)), cut), cut.whole)
        for to in ("CF-1.13", "CFA-0.6.2", "CFA-0.4", "NCA-0.1"):
            out = folder / f"out-{to}.nc"
            cfagg.aggregate(files, output=out, to=to, on_loss="materialise")
            npt.assert_array_equal(upright(cfagg.read(out).tas, cut), cut.whole)


@settings(max_examples=8, deadline=None)
@given(cuts())
def test_what_was_cut_into_files_comes_back(cut: Cut) -> None:
    check(cut)


@pytest.mark.soak
@settings(max_examples=1000, deadline=None)
@given(cuts())
def test_what_was_cut_into_files_comes_back_always(cut: Cut) -> None:
    check(cut)
