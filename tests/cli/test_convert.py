"""The `cfagg convert` command."""

import contextlib
import json
import os
import pty
import subprocess
import sys

import netCDF4
import pytest
import zarr

from cfagg.cli.main import main
from tests.conversion.conftest import floats, write_packed  # noqa: F401  a fixture


def test_convert_prints_one_line_and_returns_0(floats, tmp_path, capsys):  # noqa: F811
    path, values = floats
    status = main(
        ["convert", str(path), str(tmp_path / "o.zarr"), "--verify", "--chunks", "time=5,lat=-1", "--level", "3"]
    )
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    assert out.splitlines() == [out.strip()]
    assert out.rstrip().endswith("verified")
    array = zarr.open_group(tmp_path / "o.zarr", mode="r")["tas"]
    assert array.chunks == (5, 4, 6)
    assert (array[:] == values).all()


def test_an_existing_target_needs_overwrite(floats, tmp_path, capsys):  # noqa: F811
    path, _ = floats
    (tmp_path / "o.zarr").mkdir()
    assert main(["convert", str(path), str(tmp_path / "o.zarr")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "exists" in err
    assert len(err.splitlines()) == 1
    assert main(["convert", str(path), str(tmp_path / "o.zarr"), "--overwrite", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("chunks", ["big", "time=x", "time=3,lat", "=3", "time=3,time=4"])
def test_chunks_that_are_not_understood_are_wrong_usage(floats, tmp_path, capsys, chunks):  # noqa: F811
    path, _ = floats
    assert main(["convert", str(path), str(tmp_path / "o.zarr"), "--chunks", chunks]) == 2
    assert "--chunks" in capsys.readouterr().err
    assert not (tmp_path / "o.zarr").exists()


def test_notes_go_to_stderr_and_the_summary_to_stdout(tmp_path, capsys):
    path, _ = write_packed(tmp_path, [(0.01, 250.0), (0.02, 250.0)])
    assert main(["convert", str(path), str(tmp_path / "o.zarr")]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("note: variable 'tas': its partitions are not packed alike")
    assert len(out.splitlines()) == 1


def test_a_partition_of_the_wrong_shape_is_one_message_that_names_it(floats, tmp_path, capsys):  # noqa: F811
    path, _ = floats
    (tmp_path / "part2.nc").unlink()
    (tmp_path / "part0.nc").rename(tmp_path / "part2.nc")
    assert main(["convert", str(path), str(tmp_path / "o.zarr"), "--missing", "fill"]) == 2
    assert "partition (2, 0, 0)" in capsys.readouterr().err


@pytest.mark.full
def test_the_bar_is_drawn_on_a_terminal_only(floats, tmp_path):  # noqa: F811
    path, _ = floats
    main_end, other_end = pty.openpty()
    command = [sys.executable, "-m", "cfagg", "convert", str(path), str(tmp_path / "o.zarr")]
    process = subprocess.Popen(command, stderr=other_end, stdout=subprocess.PIPE, env={**os.environ, "TERM": "xterm"})
    os.close(other_end)
    drawn = b""
    # Read as it is drawn: a terminal that nobody reads from stops the command once its buffer is full.
    with contextlib.suppress(OSError):  # Linux ends what is read from a terminal with EIO
        while part := os.read(main_end, 100_000):
            drawn += part
    os.close(main_end)
    process.communicate(timeout=300)
    assert process.returncode == 0
    assert b"\x1b[" in drawn
    quiet = subprocess.run([*command, "--overwrite"], capture_output=True)
    assert quiet.stderr == b""


def foreign(path):
    """Write a file with an aggregation of another convention beside an ordinary variable."""
    with netCDF4.Dataset(path, "w") as ds:
        ds.createDimension("t", 2)
        ds.createVariable("tas", "f4", ()).aggregated_dimensions = "t"
        ds.createVariable("pr", "f4", ("t",))[:] = [3, 4]
    return str(path)


def test_an_aggregation_that_cannot_be_read_is_a_refused_loss(tmp_path, capsys):
    path = foreign(tmp_path / "a.nc")
    assert main(["convert", path, str(tmp_path / "a.zarr")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "'tas' is an aggregation that cannot be read" in said.err
    assert "--on-loss drop" in said.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.nc"]


def test_a_loss_that_is_accepted_is_listed_even_if_quiet(tmp_path, capsys):
    path = foreign(tmp_path / "a.nc")
    assert main(["convert", path, "-o", str(tmp_path / "a.zarr"), "--on-loss", "drop", "-q"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("lost: variable 'tas': the variable (it is left out) is lost: ")
    assert list(zarr.open_group(tmp_path / "a.zarr", mode="r").array_keys()) == ["pr"]


def test_the_report_of_a_conversion_can_be_json(tmp_path, capsys):
    path = foreign(tmp_path / "a.nc")
    assert main(["convert", path, str(tmp_path / "a.zarr"), "--on-loss", "drop", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["variables"] == ["pr"]
    assert [(loss["variable"], loss["what"]) for loss in found["losses"]] == [("tas", "the variable")]


def test_other_variables_are_converted_without_a_loss(tmp_path, capsys):
    path = foreign(tmp_path / "a.nc")
    assert main(["convert", path, str(tmp_path / "a.zarr"), "--variable", "pr"]) == 0
    assert "lost" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["out.h5", "out.NC4", "out.grib", "out.zip"])
def test_a_target_named_like_another_format_is_a_usage_error_and_no_directory(tmp_path, capsys, name):
    path = foreign(tmp_path / "a.nc")
    assert main(["convert", path, str(tmp_path / name), "--variable", "pr"]) == 2
    assert ", for instance" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


def test_the_target_is_named_once(tmp_path, capsys):
    path = foreign(tmp_path / "a.nc")
    assert main(["convert", path]) == 2
    assert "there is no target" in capsys.readouterr().err
    assert main(["convert", path, str(tmp_path / "a.zarr"), "-o", str(tmp_path / "b.zarr")]) == 2
    assert "give the target once" in capsys.readouterr().err


def test_show_lists_an_aggregation_that_cannot_be_read_and_goes_on(tmp_path, capsys):
    path = foreign(tmp_path / "a.nc")
    assert main(["show", path]) == 0
    shown = capsys.readouterr().out
    assert "pr" in shown
    assert "variable tas cannot be read: " in shown
    assert main(["show", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [u["name"] for u in found["groups"][0]["unreadable"]] == ["tas"]
