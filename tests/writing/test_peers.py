"""What cf-python, cfdm and CFAPyX read of the files that are written, and cfagg of theirs.

The environment variable CFAGG_PEERS names the Python of an environment with ``cf-python==3.21.*``, ``cfdm==1.13.*`` and
``cfapyx==2026.10.*``.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.cf.udunits import bundled
from tests.writing.every_dialect import WRITTEN
from tests.writing.peer_script import PEERS

VALUES = np.arange(24.0).reshape(4, 6) + 0.5

#: What each peer does with each dialect: reads it, gives other values, or refuses.
OUTCOMES = {
    ("NCA-0.1", "cf-python"): "wrong", ("NCA-0.1", "cfdm"): "wrong", ("NCA-0.1", "CFAPyX"): "wrong",
    ("CFA-0.4", "cf-python"): "wrong", ("CFA-0.4", "cfdm"): "wrong", ("CFA-0.4", "CFAPyX"): "wrong",
    ("CFA-0.6.2", "cf-python"): "wrong", ("CFA-0.6.2", "cfdm"): "wrong", ("CFA-0.6.2", "CFAPyX"): "refused",
    ("CF-1.13", "cf-python"): "read", ("CF-1.13", "cfdm"): "read", ("CF-1.13", "CFAPyX"): "read",
}  # fmt: skip


def prepare(folder: Path) -> None:
    """Write two fragments with coordinates, and their aggregation in every dialect."""
    records = []
    for k, name in enumerate("ap"):
        with netCDF4.Dataset(folder / f"{name}.nc", "w") as file:
            file.Conventions = "CF-1.11"
            fields(file, np.arange(2 * k, 2 * k + 2.0))
            file["tas"][...] = VALUES[2 * k : 2 * k + 2]
        data = {"shape": [2, 6], "file": f"{name}.nc", "ncvar": "tas"}
        records.append({"index": [k], "location": [[2 * k, 2 * k + 2], [0, 6]], "data": data})
    array = {"directions": {"y": True, "x": True}, "pdimensions": ["y"], "pshape": [2], "Partitions": records}
    with netCDF4.Dataset(folder / "s.nca", "w") as file:
        file.Conventions = "CF-1.6 NCA"
        fields(file, np.arange(4.0), scalar=True)
        file["tas"].setncatts({"nca_dimensions": "y x", "nca_array": json.dumps(array)})
    for to in WRITTEN:
        cfagg.convert(folder / "s.nca", folder / f"s-{to}.nc", to=to)


def fields(file, y, *, scalar=False):
    for dim, values in (("y", y), ("x", np.arange(6.0))):
        file.createDimension(dim, len(values))
        variable = file.createVariable(dim, "f8", (dim,))
        variable.setncatts({"units": "m", "standard_name": f"projection_{dim}_coordinate"})
        variable[:] = values
    file.createVariable("tas", "f8", () if scalar else ("y", "x")).setncatts(
        {"units": "K", "standard_name": "air_temperature"}
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return the folder, what the peers read, and what they wrote."""
    python = os.environ.get("CFAGG_PEERS")
    if not python:
        pytest.skip("CFAGG_PEERS does not name the Python of an environment with cf-python, cfdm and CFAPyX")
    folder = tmp_path_factory.mktemp("peers")
    prepare(folder)
    script = Path(__file__).with_name("peer_script.py")
    done = subprocess.run(
        [python, script, folder, *(f"s-{to}.nc" for to in WRITTEN)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **({"UDUNITS2_XML_PATH": str(tables[1])} if (tables := bundled()) else {})},
    )
    return folder, json.loads(done.stdout.rpartition("\npeers ")[2])


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("to", WRITTEN)
def test_peers_do_with_written_files_what_the_table_says(found, to, peer):
    values = found[1]["read"][f"{peer} s-{to}.nc"]
    outcome = "refused" if isinstance(values, str) else "read" if values == VALUES.tolist() else "wrong"
    assert outcome == OUTCOMES[to, peer], values


@pytest.mark.parametrize("peer", PEERS)
def test_files_that_peers_wrote_are_read(found, peer):
    folder, document = found
    name = document["written"][peer]
    assert cfagg.open_aggregation(folder / name, "tas").dialect == "CF-1.13"
    np.testing.assert_array_equal(cfagg.read(folder / name)["tas"].values, VALUES)


def table() -> str:
    """Return the outcomes as Markdown.

    >>> table().splitlines()[-1]
    '| CF-1.13 | read | read | read |'
    """
    rows = [f"| {' | '.join([to, *(OUTCOMES[to, peer] for peer in PEERS)])} |" for to in WRITTEN]
    return "\n".join([f"| | {' | '.join(PEERS)} |", "| --- | --- | --- | --- |", *rows])


def test_the_table_has_a_cell_for_each_dialect_and_peer():
    assert set(OUTCOMES) == {(to, peer) for to in WRITTEN for peer in PEERS}
    assert len(table().splitlines()) == 2 + len(WRITTEN)
