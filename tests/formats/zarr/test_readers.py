"""The table of what reads rectilinear grids is true: each library of it opens such a store."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cfagg
from cfagg.formats.zarr.creating import NewArray, array_documents, group_documents, write_documents
from cfagg.formats.zarr.readers import READERS, SETTING, readers_table, rectilinear_note
from cfagg.formats.zarr.written_codecs import Codec
from tests.benchmarks.peers import PEERS, peer_python

TABLE = {r.library: r for r in READERS}
VALUES = np.arange(35.0).reshape(7, 5)

#: Python of a peer -> the libraries that are in it for this.
HERE = ("zarr-python", "xarray", "dask.array.from_zarr", "netCDF-C", "icechunk")
RECTILINEAR = ("zarrista", "zarr-python", "zarrs", "icechunk", "xarray", "tensorstore", "VirtualiZarr")


@pytest.fixture
def store(tmp_path):
    """Return a store whose grid has runs and a single length, and whose last edges overhang."""
    (tmp_path / "a.zarr/v").mkdir(parents=True)
    write_documents(tmp_path / "a.zarr", group_documents({}, 3))
    new = NewArray(("y", "x"), (7, 5), np.dtype("f8"), ([3, 3, 2], [2, 2, 2]), np.nan, Codec("zstd"), {})
    write_documents(tmp_path / "a.zarr/v", array_documents(new, 3))
    padded = np.zeros((8, 6))
    padded[:7, :5] = VALUES
    encode = new.codec.encoder()
    for i, rows in enumerate((slice(0, 3), slice(3, 6), slice(6, 8))):
        for j in range(3):
            path = tmp_path / f"a.zarr/v/c/{i}/{j}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(np.ascontiguousarray(padded[rows, 2 * j : 2 * j + 2])))
    return str(tmp_path / "a.zarr")


def probe(python, store):
    """Return what the libraries of a Python say."""
    script = Path(__file__).with_name("rectilinear_probe.py")
    done = subprocess.run([python, script, store], capture_output=True, text=True, check=True, cwd=script.parent)
    return json.loads(done.stdout.splitlines()[-1])


def agrees(row, found):
    """Check one library's answers without and with the setting against its row."""
    answers = {on: found[on] == VALUES.tolist() for on in ("False", "True")}
    expected = {"False": row.reads and not row.needs_setting, "True": row.reads}
    assert answers == expected, (row, found)


def test_libraries_that_are_here_read_rectilinear_grids_as_the_table_says(store):
    found = probe(sys.executable, store)
    for name in HERE:
        agrees(TABLE[name], found[name])
    assert cfagg.read(store)["v"].values.tolist() == VALUES.tolist()


@pytest.mark.full
def test_other_libraries_read_rectilinear_grids_as_the_table_says(store):
    found = probe(peer_python("rectilinear", install=True), store)
    for name in RECTILINEAR:
        agrees(TABLE[name], found[name])
        assert found[name]["version"].startswith(TABLE[name].versions.split(" to ")[-1]), name


@pytest.mark.full
def test_other_libraries_read_what_is_written_of_unequal_chunks(tmp_path):
    import dask.array

    data = dask.array.from_array(VALUES, chunks=((2, 4, 1), (1, 3, 1)))
    cfagg.write({"v": (("y", "x"), data)}, tmp_path / "w.zarr")
    found = probe(peer_python("rectilinear", install=True), str(tmp_path / "w.zarr"))
    for name in RECTILINEAR:
        agrees(TABLE[name], found[name])


@pytest.mark.full
def test_the_first_zarr_python_that_reads_rectilinear_grids_is_that_of_the_table(store):
    first = probe(peer_python("zarr_3_2", install=True), store)["zarr-python"]
    agrees(TABLE["zarr-python"], first)
    assert first["version"].startswith(TABLE["zarr-python"].versions.split(" to ")[0])
    before = probe(peer_python("zarr_3_1", install=True), store)
    agrees(TABLE["zarr-python before"], before["zarr-python"])
    assert "rectilinear" in before["zarr-python, names"]["True"]


@pytest.mark.full
def test_the_short_form_of_equal_chunks_that_is_never_written_is_one_that_icechunk_refuses(store):
    document = Path(store, "v/zarr.json")
    written = json.loads(document.read_text())
    shapes = written["chunk_grid"]["configuration"]["chunk_shapes"]
    assert shapes == [[[3, 2], 2], [[2, 3]]]
    shapes[1] = 2
    document.write_text(json.dumps(written))
    found = probe(sys.executable, store)
    assert "chunk_shapes" in found["icechunk"]["True"]
    assert found["zarr-python"]["True"] == cfagg.read(store)["v"].values.tolist() == VALUES.tolist()


def test_every_row_of_the_table_is_tried():
    assert TABLE.keys() == {"cfagg", "zarr-python before", *HERE, *RECTILINEAR}
    assert {"rectilinear", "zarr_3_1", "zarr_3_2"} <= PEERS.keys()


def test_the_note_names_every_reader_and_the_setting():
    said = rectilinear_note("tas")
    read, _, refused = said.partition("; not by ")
    for row in READERS:
        assert row.library in (read if row.reads else refused)
        assert row.library in readers_table()
    assert SETTING in read
