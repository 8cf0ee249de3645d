"""Attributes that are decoded without the HDF5 library."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest

from cfagg.formats.hdf5 import FORMAT
from cfagg.formats.hdf5.space import Space
from cfagg.formats.metadata import foreign
from cfagg.storage.files import open_regular


@pytest.mark.parametrize("texts", ["x" * (1 << 16), ["y", "x" * (1 << 16)]])
def test_a_text_that_is_too_long_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: str | list[str]
) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["v"] = [1, 2]
        file["v"].attrs["long"] = texts
        file["v"].attrs["short"] = "K"
    lengths: list[int] = []
    read = Space.long_value

    def noted(self: Space, length: int, heap: int, index: int) -> bytes:
        lengths.append(length)
        return read(self, length, heap, index)

    monkeypatch.setattr(foreign, "LONGEST", 1 << 15)
    monkeypatch.setattr(Space, "long_value", noted)
    with FORMAT.open(open_regular(str(tmp_path / "a.nc"))) as dataset:
        found = dataset.root.variables["v"].attributes
    assert (str(found["long"])[:15], found["short"]) == ("an attribute of", "K")
    assert max(lengths, default=0) < 1 << 15
