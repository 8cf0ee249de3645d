"""Random PP files, whose values are known without reading them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np
from hypothesis import strategies as st

from tests.formats.pp import making
from tests.formats.pp.test_dataset import HYBRID, INSTANT, MEAN
from tests.formats.pp.test_values import wgdos_words

#: The values that `wgdos_words` packs.
_WGDOS = np.array([[1.5, 2, 8.5], [0.0625] * 3])

#: Grids: one of points, one of cells, and one with another pole.
_GRIDS = ({}, {"LBCODE": 2}, {"LBCODE": 101, "BPLAT": 38.0, "BPLON": 190.0})


@dataclass
class Fields:
    """The content of a PP file, and the values of its fields by the bytes at which these begin."""

    content: bytes = b""
    values: dict[int, np.ma.MaskedArray] = field(default_factory=dict)

    def add(self, made: bytes, values: np.ma.MaskedArray) -> None:
        """Append a field."""
        self.values[len(self.content)] = values
        self.content += made


@st.composite
def fields(draw) -> Fields:
    """Return up to three quantities at some times and levels, in any order, perhaps with some fields left out."""
    size, order = draw(st.sampled_from([4, 8])), draw(st.sampled_from("<>"))
    shape = draw(st.sampled_from([(2, 3), (2, 3), (1, 1), (3, 1), (4, 5)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    grid = {**draw(st.sampled_from(_GRIDS)), "LBROW": shape[0], "LBNPT": shape[1]}
    land = rng.random(shape) < 0.5
    whole = Fields()
    mask = {**INSTANT, **grid, "LBUSER4": 30, "LBUSER1": 3}
    whole.add(
        making.field(land.astype(f"{order}i{size}").tobytes(), size, order, **mask), np.ma.array(land.astype(int))
    )
    stored = []
    for code in draw(st.lists(st.sampled_from([4, 33, 409, 16203, 98765]), min_size=1, max_size=3, unique=True)):
        said = draw(st.sampled_from(_QUANTITIES))
        missing = draw(st.lists(st.sampled_from([-1e30, -99.0, 0.0]), min_size=1, max_size=2))
        packings = draw(st.lists(st.sampled_from([0, 1, 2, 4, 120, 220]), min_size=1, max_size=2))
        scales = draw(st.lists(st.sampled_from([(1.0, 0.0), (0.5, 20.0)]), min_size=1, max_size=2))
        kind = draw(st.sampled_from("fi"))
        for t, z in product(range(draw(st.integers(1, 3))), range(draw(st.integers(1, 3)))):
            bmdi, packing, (bmks, bdatum) = (a[rng.integers(len(a))] for a in (missing, packings, scales))
            words = {**grid, "LBUSER4": code, "BMDI": bmdi, "LBPACK": packing, "BMKS": bmks, "BDATUM": bdatum}
            stored.append(_field(rng, size, order, kind, land, {**_at(said, t, z), **words}))
    kept = draw(st.permutations(stored))[: draw(st.integers(1, len(stored)))] if draw(st.booleans()) else stored
    for made in kept:
        whole.add(*made)
    return whole


#: What the headers of a quantity say: instants or means, on levels of pressure, hybrid height or none.
_QUANTITIES = tuple({**time, **level} for time in (INSTANT, MEAN) for level in ({"LBVC": 8}, HYBRID, {"LBVC": 129}))


def _at(said: dict[str, float], t: int, z: int) -> dict[str, float]:
    """Return the words of a quantity at a time and on a level."""
    time = {"LBMON": 1 + t, "LBMOND": 2 + t, "LBFT": 720 * (1 + t)} if said["LBTIM"] == 122 else {"LBDAT": 1 + t}
    level = {"LBLEV": 1 + z, "BLEV": 1000.0 - 150 * z, "BHLEV": 1 - z / 10, "BRLEV": 1050.0 - 150 * z}
    return {**said, **time, **level}


def _field(
    rng: np.random.Generator, size: int, order: str, kind: str, land: np.ndarray, words: dict[str, float]
) -> tuple[bytes, np.ma.MaskedArray]:
    """Return a field and the values that it stands for."""
    packing, missing = words["LBPACK"], words["BMDI"]
    if packing in (1, 4) and (kind == "i" or land.shape != _WGDOS.shape):
        packing = 0  # what the makers do not pack
    real = kind == "f" or packing == 1
    dtype = np.dtype(f"{order}{kind if real else 'i'}{4 if packing == 2 else size}")
    values = rng.integers(1, 1000, land.shape).astype(dtype)
    hidden = (rng.random(land.shape) < 0.3) & (real or missing == int(missing) > -1e9)
    if packing == 1:
        values, hidden = _WGDOS, np.zeros(land.shape, bool)
        raw = np.array(wgdos_words(), ">u4")
        data = (raw.view(f">u{size}").byteswap() if order == "<" else raw).tobytes()
    else:
        values = np.where(hidden, dtype.type(missing if real or hidden.any() else 0), values).astype(dtype)
        chosen = {120: land, 220: ~land}.get(int(packing), np.ones(land.shape, bool))
        data = np.array(making.runs(values.ravel(), missing) if packing == 4 else values[chosen], dtype).tobytes()
        hidden = hidden | ~chosen
    said = {**words, "LBPACK": packing, "LBUSER1": 1 if real else 2}
    meant = np.ma.array(values * words["BMKS"] + words["BDATUM"], mask=hidden)
    return making.field(data, size, order, **said), meant
