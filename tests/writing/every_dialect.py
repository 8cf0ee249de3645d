"""One small aggregation in every dialect that is read, by netCDF4 alone: plain, and with what is its own."""

from __future__ import annotations

import json
import pathlib

import netCDF4
import numpy as np

from cfagg.errors import LossError
from cfagg.findings.losses import Loss
from cfagg.writing.writing import target_of, translate
from tests import instruction_files
from tests.arrays import test_groups_of_partitions as groups
from tests.arrays.test_json_dialects import VALUES, document
from tests.json_dialects import DIALECTS as JSON
from tests.json_dialects import attributes

#: Every dialect that is read, and those that are written.
READ = (*JSON, "CFA-0.5", "CFA-0.6.2", "CF-1.13")
WRITTEN = ("NCA-0.1", "CFA-0.4", "CFA-0.6.2", "CF-1.13")

#: What the rich aggregation in each dialect has that others may not.
RICH = {
    **dict.fromkeys(JSON, "parts of larger arrays, transposed, reversed, in other units"),
    "CFA-0.5": "a group for partitions",
    "CFA-0.6.2": "versions of fragments, a term of its own",
    "CF-1.13": "unique values, one of them missing",
}


def _fragment(path: pathlib.Path, values: np.ndarray, units: str | None = "K", dims: str = "yx") -> None:
    with netCDF4.Dataset(path, "w") as file:
        for dim, n in zip(dims, values.shape, strict=True):
            file.createDimension(dim, n)
        tas = file.createVariable("tas", "f8", tuple(dims))
        if units is not None:
            tas.units = units
        tas[...] = values


def _plain_document() -> dict[str, object]:
    records = [
        {"index": [k], "location": [[k * 2, k * 2 + 2], [0, 6]],
         "data": {"shape": [2, 6], "file": f"{n}.nc", "ncvar": "tas"}}
        for k, n in enumerate("ap")
    ]  # fmt: skip
    return {"directions": {"y": True, "x": True}, "pdimensions": ["y"], "pshape": [2], "Partitions": records}


def write(folder: pathlib.Path, dialect: str, *, rich: bool) -> pathlib.Path:
    """Write an aggregation file with the variable ``tas`` and its fragments."""
    path = folder / "source.nc"
    if dialect == "CFA-0.5":
        made = groups.write(folder)
        return made.rename(path)
    _fragment(folder / "a.nc", VALUES[:2])
    _fragment(folder / "p.nc", VALUES[2:])
    lengths = {"y": 4, "x": 6}
    if dialect in JSON:
        # The turned half, as a part of a larger array that does not say its units.
        larger = np.full((12, 4), -7.0)
        larger[::2, 1:3] = (VALUES[2:, ::-1] - 273.15).T
        _fragment(folder / "b.nc", larger, None, "xy")
        own = document({"y": True, "x": True}, {"x": False})
        marks, key, array = attributes(own if rich else _plain_document(), ["y", "x"], dialect)
        with netCDF4.Dataset(path, "w") as file:
            file.Conventions = "CF-1.6 NCA" if dialect == "NCA-0.1" else f"CF-1.6 {dialect}"
            for dim, n in lengths.items():
                file.createDimension(dim, n)
            file.createVariable("tas", "f8", ()).setncatts({"units": "K", **marks, key: json.dumps(array)})
        return path
    rows = [[2, 2], [6]]
    if dialect == "CFA-0.6.2":
        files = [[["gone.nc", "a.nc"]], [["p.nc", None]]] if rich else [["a.nc"], ["p.nc"]]
        addresses = [[["tas", "tas"]], [["tas", None]]] if rich else "tas"
        more = {"terms": {"id": [["first"], ["second"]]}} if rich else {}
        return instruction_files.cfa(path, "tas", "f8", lengths, rows, files, addresses, "nc", {"units": "K"}, **more)
    if not rich:
        return instruction_files.cf(path, "tas", "f8", lengths, rows, [["a.nc"], ["p.nc"]], "tas", {"units": "K"})
    with netCDF4.Dataset(path, "w") as file:
        file.Conventions = "CF-1.13"
        instruction_files.dimensions(file, **lengths, f_y=2, f_x=1)
        instruction_files.sizes(file, "m", rows)
        unique = file.createVariable("u", "f8", ("f_y", "f_x"), fill_value=-1.0)
        unique[...] = [[7.5], [-1.0]]
        terms = {"map": "m", "unique_values": "u"}
        instruction_files.aggregated(file, "tas", "f8", lengths, terms, {"units": "K"}, fill_value=-1.0)
    return path


def losses(path: pathlib.Path, to: str) -> list[Loss]:
    """Return what a translation would lose, after trying it."""
    target = target_of(path.with_name(f"lost-{to}.nc"), to, "error", None, overwrite=True, netcdf=to)
    try:
        translate(path, target)
    except LossError as error:
        return list(error.losses)
    return []
