"""What iris and umfive read of the sample PP files: ``python tests/formats/pp/facts.py iris|umfive SAMPLES…``.

It prints JSON; `facts.json` keeps what both said. It imports no cfagg, so that an environment of theirs can run it.
"""

from __future__ import annotations

import json
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

#: What iris calls coordinates that have a standard name.
NAMES = {"pressure": "air_pressure"}


def of_values(data: Any) -> dict[str, Any]:
    """Return shape and checks of an array without dimensions of size 1; missing values count as zero."""
    values = np.ma.filled(np.ma.asarray(data), 0).astype("f4")
    shape = [n for n in values.shape if n > 1]
    return {
        "shape": shape,
        "sum": float(values.sum(dtype="f8")),
        "missing": int(np.ma.count_masked(data)),
        "crc": zlib.crc32(np.ascontiguousarray(values).tobytes()),
    }


def of_coordinate(points: Any, bounds: Any) -> dict[str, Any]:
    """Return values and bounds as lists."""
    found = {"values": np.asarray(points, "f8").ravel().tolist()}
    return found if bounds is None else {**found, "bounds": np.asarray(bounds, "f8").ravel().tolist()}


def of_iris(path: str) -> list[dict[str, Any]]:
    """Return the cubes of a file."""
    import iris

    found = []
    for cube in iris.load_raw(path).merge():
        coordinates = {
            NAMES.get(c.name(), c.name()): of_coordinate(c.points, c.bounds)
            for c in cube.coords()
            if c not in cube.derived_coords and np.asarray(c.points).dtype.kind in "if"
        }
        found.append({"stash": str(cube.attributes.get("STASH")), **of_values(cube.data), "coordinates": coordinates})
    return found


def of_umfive(path: str) -> list[dict[str, Any]]:
    """Return the data variables of a file."""
    import umfive

    file = umfive.File(path)
    found = []
    for name in file.data_variables:
        variable = file[name]
        values = np.asarray(variable[...])
        missing = variable.attrs.get("_FillValue")
        masked = np.ma.masked_equal(values, missing) if missing is not None else values
        found.append({"stash": variable.attrs.get("um_stash_source"), **of_values(masked)})
    return found


def main(peer: str, *paths: str) -> None:
    """Print the facts of files."""
    warnings.simplefilter("ignore")
    of = {"iris": of_iris, "umfive": of_umfive}[peer]
    print(json.dumps({Path(path).name: of(path) for path in paths}, indent=1, sort_keys=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
