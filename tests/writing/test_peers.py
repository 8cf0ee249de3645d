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

#: Kinds of fragments: plain numbers; each packed by its own scale and offset; the same with a missing value.
KINDS = {"plain": "", "packed": ", packed fragments", "gaps": ", missing values in packed fragments"}

#: What each peer does with each dialect and kind of fragments: reads it, gives other values, or refuses.
OUTCOMES = {
    **{
        (to, kind, peer): "wrong"
        for to in ("NCA-0.1", "CFA-0.4", "CFA-0.6.2")
        for kind in KINDS
        for peer in ("cf-python", "cfdm", "CFAPyX")
    },
    **{("CFA-0.6.2", kind, "CFAPyX"): "refused" for kind in KINDS},
    **{("CF-1.13", kind, peer): "read" for kind in KINDS for peer in ("cf-python", "cfdm", "CFAPyX")},
    # It leaves a missing value as it is stored.
    ("CF-1.13", "gaps", "CFAPyX"): "wrong",
}

#: Scale and offset of each fragment; all values are exact.
PACKING = {"a": (0.5, 0.0), "p": (0.25, 10.0)}

ROWS = [(to, kind) for kind in KINDS for to in WRITTEN]


def name_of(to: str, kind: str) -> str:
    return f"{'s' if kind == 'plain' else kind}-{to}.nc"


def values_of(kind: str) -> list[list[float | None]]:
    """Return the values of a kind of fragments, `None` where one is missing."""
    values: list[list[float | None]] = VALUES.tolist()
    if kind == "gaps":
        values[1][2] = None
    return values


def prepare(folder: Path, kind: str) -> None:
    """Write two fragments with coordinates, and their aggregation in every dialect."""
    records = []
    for k, stem in enumerate("ap"):
        name = stem if kind == "plain" else f"{kind}-{stem}"
        scale, offset = (1.0, 0.0) if kind == "plain" else PACKING[stem]
        with netCDF4.Dataset(folder / f"{name}.nc", "w") as file:
            file.Conventions = "CF-1.11"
            fields(
                file, np.arange(2 * k, 2 * k + 2.0), "f8" if kind == "plain" else "i2", -7 if kind == "gaps" else None
            )
            stored = (VALUES[2 * k : 2 * k + 2] - offset) / scale
            if kind != "plain":
                file["tas"].setncatts({"scale_factor": scale, "add_offset": offset})
                file["tas"].set_auto_maskandscale(False)
            if kind == "gaps" and not k:
                stored[1, 2] = -7
            file["tas"][...] = stored
        data = {"shape": [2, 6], "file": f"{name}.nc", "ncvar": "tas"}
        records.append({"index": [k], "location": [[2 * k, 2 * k + 2], [0, 6]], "data": data})
    array = {"directions": {"y": True, "x": True}, "pdimensions": ["y"], "pshape": [2], "Partitions": records}
    source = folder / f"{kind}.nca"
    with netCDF4.Dataset(source, "w") as file:
        file.Conventions = "CF-1.6 NCA"
        fields(file, np.arange(4.0), scalar=True)
        file["tas"].setncatts({"nca_dimensions": "y x", "nca_array": json.dumps(array)})
    for to in WRITTEN:
        cfagg.convert(source, folder / name_of(to, kind), to=to)


def fields(file, y, dtype="f8", fill=None, *, scalar=False):
    for dim, values in (("y", y), ("x", np.arange(6.0))):
        file.createDimension(dim, len(values))
        variable = file.createVariable(dim, "f8", (dim,))
        variable.setncatts({"units": "m", "standard_name": f"projection_{dim}_coordinate"})
        variable[:] = values
    file.createVariable("tas", dtype, () if scalar else ("y", "x"), fill_value=fill).setncatts(
        {"units": "K", "standard_name": "air_temperature"}
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return the folder, what the peers read, and what they wrote."""
    python = os.environ.get("CFAGG_PEERS")
    if not python:
        pytest.skip("CFAGG_PEERS does not name the Python of an environment with cf-python, cfdm and CFAPyX")
    folder = tmp_path_factory.mktemp("peers")
    for kind in KINDS:
        prepare(folder, kind)
    script = Path(__file__).with_name("peer_script.py")
    done = subprocess.run(
        [python, script, folder, *(name_of(*row) for row in ROWS)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **({"UDUNITS2_XML_PATH": str(tables[1])} if (tables := bundled()) else {})},
    )
    return folder, json.loads(done.stdout.rpartition("\npeers ")[2])


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize(("to", "kind"), ROWS)
def test_peers_do_with_written_files_what_the_table_says(found, to, kind, peer):
    values = found[1]["read"][f"{peer} {name_of(to, kind)}"]
    if isinstance(values, str):
        outcome = "refused"
    else:
        # Missing is what NumPy masks, and what xarray calls NaN.
        plain = (
            [[None if v is None or np.isnan(v) else v for v in row] for row in values]
            if isinstance(values, list)
            else values
        )
        outcome = "read" if plain == values_of(kind) else "wrong"
    assert outcome == OUTCOMES[to, kind, peer], values


@pytest.mark.parametrize("kind", KINDS)
def test_what_peers_are_given_is_read_here(tmp_path, kind):
    prepare(tmp_path, kind)
    expected = np.array(values_of(kind), float)
    for to in WRITTEN:
        np.testing.assert_array_equal(cfagg.read(tmp_path / name_of(to, kind))["tas"].values, expected)


# CFAPyX writes the paths that it is given, here an absolute one, in place of URIs.
@pytest.mark.filterwarnings("ignore:.*is an absolute path:cfagg.errors.RepairWarning")
@pytest.mark.parametrize("peer", PEERS)
def test_files_that_peers_wrote_are_read(found, peer):
    folder, document = found
    name = document["written"][peer]
    assert cfagg.open_aggregation(folder / name, "tas").dialect == "CF-1.13"
    np.testing.assert_array_equal(cfagg.read(folder / name)["tas"].values, VALUES)


def table() -> str:
    """Return the outcomes as Markdown.

    >>> table().splitlines()[-1]
    '| CF-1.13, missing values in packed fragments | read | read | wrong |'
    """
    rows = [
        f"| {' | '.join([f'{to}{KINDS[kind]}', *(OUTCOMES[to, kind, peer] for peer in PEERS)])} |" for to, kind in ROWS
    ]
    return "\n".join([f"| | {' | '.join(PEERS)} |", "| --- | --- | --- | --- |", *rows])


def test_the_table_has_a_cell_for_each_dialect_and_peer():
    assert set(OUTCOMES) == {(*row, peer) for row in ROWS for peer in PEERS}
    assert len(table().splitlines()) == 2 + len(ROWS)
