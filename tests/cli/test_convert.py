"""The `cfagg convert` command."""

import os
import pty
import subprocess
import sys

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


@pytest.mark.parametrize("chunks", ["big", "time=x", "time=3,lat"])
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


def test_the_bar_is_drawn_on_a_terminal_only(floats, tmp_path):  # noqa: F811
    path, _ = floats
    main_end, other_end = pty.openpty()
    command = [sys.executable, "-m", "cfagg", "convert", str(path), str(tmp_path / "o.zarr")]
    process = subprocess.Popen(command, stderr=other_end, stdout=subprocess.PIPE, env={**os.environ, "TERM": "xterm"})
    process.communicate()
    os.close(other_end)
    drawn = os.read(main_end, 100_000)
    os.close(main_end)
    assert process.returncode == 0
    assert b"\x1b[" in drawn
    quiet = subprocess.run([*command, "--overwrite"], capture_output=True)
    assert quiet.stderr == b""
