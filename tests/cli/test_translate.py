"""The commands that translate aggregation files and move their references."""

from __future__ import annotations

import json

import numpy as np
import pytest

import cfagg
from cfagg.cli.main import main
from cfagg.demo import sample
from tests import nca_files
from tests.writing.exports.files import LAT, packed_series


@pytest.fixture
def path(tmp_path):
    values = np.arange(12, dtype="f4").reshape(4, 3)
    return nca_files.simple(tmp_path, values, ["t", "x"], [[0, 1, 4], [0, 3]], "tas", {"units": "K"})


def test_a_file_is_translated(path, capsys):
    target = path.with_name("new.nc")
    assert main(["convert", str(path), str(target), "--to", "CF-1.13"]) == 0
    assert capsys.readouterr().out == f"{target}: 1 aggregation of 2 partitions in CF-1.13\n"
    assert cfagg.open_aggregation(target, "tas").dialect == "CF-1.13"


def test_refused_losses_are_listed_by_reason_and_all_in_json_and_the_status_is_1(tmp_path, capsys):
    target = tmp_path / "new.nc"
    assert main(["convert", str(sample("figure1.nca")), str(target), "--to", "CF-1.13"]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("lost: variable 'p', 22 partitions ([0, 1], [0, 2], [0, 3], …): part of a sub-array")
    assert len(said.out.splitlines()) == 1
    assert "--on-loss materialise" in said.err
    assert main(["convert", str(sample("figure1.nca")), str(target), "--to", "CF-1.13", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["form"], len(document["losses"])) == ("cfagg convert", 22)
    assert set(document["losses"][0]) == {"variable", "partition", "what", "found", "why"}
    assert not target.exists()


def test_losses_may_be_written_beside_the_target(tmp_path, capsys):
    target = tmp_path / "new.nc"
    arguments = ["convert", str(sample("figure1.nca")), str(target), "--to", "CF-1.13", "--on-loss", "materialise"]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fragments"] == 22


@pytest.mark.parametrize("wrong", [["--chunks", "t=1"], ["--to", "CFA-9"], ["--resume"]])
def test_options_that_make_no_sense_are_usage_errors(path, wrong, capsys):
    assert main(["convert", str(path), str(path.with_name("new.nc")), "--to", "CF-1.13", *wrong]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_references_are_moved(path, capsys):
    (path.parent / "parts").rename(path.parent / "moved")
    assert main(["rebase", str(path), "--from", "parts", "--to", "moved"]) == 0
    said = capsys.readouterr()
    assert said.err == "note: 2 file names moved from parts to moved\n"
    assert said.out == f"{path}: 1 aggregation of 2 partitions in NCA-0.1\n"
    assert cfagg.read(path)["tas"].values.sum() == 66
    assert main(["rebase", str(path), "--from", "parts", "--to", "moved"]) == 2
    assert (
        main(["rebase", str(path), "--from", "moved", "--to", "x", "-o", str(path.with_name("b.nca")), "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["form"] == "cfagg rebase"


def test_losses_of_references_are_listed_by_reason_and_all_in_json(tmp_path, capsys):
    scales = [{"scale_factor": np.float64(s), "add_offset": np.float64(280)} for s in (0.5, 0.25, 0.5, 0.25, 0.5)]
    path = packed_series(tmp_path, np.arange(60 * LAT * 30).reshape(60, LAT, 30).astype("i2"), scales)
    target = tmp_path / "tas.json"
    arguments = ["index", str(path), "--to", "kerchunk", "-o", str(target)]
    assert main(arguments) == 1
    said = capsys.readouterr()
    assert said.out.startswith("lost: variable 'tas', 2 partitions ([1, 0, 0], [3, 0, 0]): packing (")
    assert (len(said.out.splitlines()), "--on-loss materialise" in said.err) == (1, True)
    assert main([*arguments, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["form"], len(document["losses"]), target.exists()) == ("cfagg index", 2, False)
    assert main([*arguments, "--on-loss", "drop", "-q"]) == 0
    assert capsys.readouterr().err.splitlines()[0] == said.out.splitlines()[0]
