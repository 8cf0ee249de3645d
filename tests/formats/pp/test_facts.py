"""Sample PP files against what iris and umfive read: recorded facts, and both in this run where they are installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfagg.arrays.opening import open_any, open_reader
from cfagg.arrays.source import Source
from tests.formats.pp import facts

SAMPLES = Path(__file__).parents[3] / "sample_data" / "pp"
FACTS: dict[str, dict[str, list[dict[str, Any]]]] = json.loads(Path(__file__).with_name("facts.json").read_text())
CASES = [(peer, name) for peer, files in FACTS.items() for name in files]


def values(source: Source, name: str) -> np.ndarray[Any, Any]:
    reader = open_reader(source, name)
    return reader.read([slice(None)] * len(reader.shape))


def coordinates(source: Source, variable: Any) -> dict[str, dict[str, list[float]]]:
    """Return all coordinates of numbers with their bounds, by standard or long name."""
    found = {}
    known = source.root.variables
    for name in (*variable.dims, *str(variable.attributes.get("coordinates", "")).split()):
        of = known[name].attributes if name in known else {}
        if name in known and known[name].dtype.kind != "O":
            bounds = of.get("bounds", of.get("climatology"))
            points = values(source, name)
            found[str(of.get("standard_name", of.get("long_name")))] = facts.of_coordinate(
                points, None if bounds is None else values(source, str(bounds))
            )
    return found


def read(name: str) -> list[dict[str, Any]]:
    source = open_any(SAMPLES / name)
    found = []
    for variable in source.root.variables.values():
        if "um_stash_source" in variable.attributes:
            data = np.ma.masked_equal(values(source, variable.name), variable.attributes["_FillValue"])
            of = {"stash": variable.attributes["um_stash_source"], **facts.of_values(data)}
            found.append({**of, "coordinates": coordinates(source, variable)})
    return found


def compare(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    assert len(ours) == len(theirs)
    for own, other in zip(ours, theirs, strict=True):
        assert {k: own[k] for k in ("stash", "shape", "sum", "missing", "crc")} == {
            k: other[k] for k in ("stash", "shape", "sum", "missing", "crc")
        }
        wanted = other.get("coordinates")
        if wanted is None:
            continue
        assert set(own["coordinates"]) == set(wanted)
        for name, coordinate in wanted.items():
            mine = own["coordinates"][name]
            assert set(mine) == set(coordinate), name
            for part, numbers in coordinate.items():
                # iris counts grids in reals of 4 bytes.
                assert mine[part] == pytest.approx(numbers, rel=1e-6, abs=2e-5), name


@pytest.mark.parametrize(("peer", "name"), CASES)
def test_samples_have_the_variables_coordinates_and_values_that_others_read(peer: str, name: str) -> None:
    compare(read(name), FACTS[peer][name])


@pytest.mark.parametrize(("peer", "name"), CASES)
def test_samples_have_what_others_read_in_this_run(peer: str, name: str) -> None:
    module = peer.split(maxsplit=1)[0]
    pytest.importorskip(module, reason=f"{module}, whose reading is compared, is not installed")
    theirs = {"iris": facts.of_iris, "umfive": facts.of_umfive}[module](str(SAMPLES / name))
    compare(read(name), theirs)
