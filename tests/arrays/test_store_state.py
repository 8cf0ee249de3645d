"""The state of a Zarr store, by which a changed one is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr

from cfagg.arrays.store_state import state_now


def _store(folder: Path) -> str:
    xr.Dataset({"v": ("x", np.arange(4.0))}).to_zarr(folder / "a.zarr", zarr_format=3, consolidated=False)
    return str(folder / "a.zarr")


def test_a_chunk_that_is_a_link_to_nothing_is_a_state_like_others(tmp_path: Path) -> None:
    place, seen = _store(tmp_path), (("zarr.json",), ("v",))
    before = state_now(place, (), seen)
    chunk = Path(place, "v/c/0")
    chunk.unlink()
    chunk.symlink_to(tmp_path / "nothing")
    after = state_now(place, (), seen)
    assert after is not None
    assert after != before


def test_arrays_out_of_the_store_are_no_state_of_it(tmp_path: Path) -> None:
    place = _store(tmp_path)
    assert state_now(place, (), (("zarr.json",), ("../..",))) is None
