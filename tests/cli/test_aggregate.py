"""``cfagg aggregate``: what it writes, what it says, and how it ends."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.cf.joining import Options
from cfagg.cf.joining.reasons import Rule
from cfagg.cf.joining.remedies import remedy_of
from cfagg.cli import main as cli
from cfagg.cli.aggregate import RULES
from cfagg.cli.messages import as_options
from tests.aggregation.months import month, months


def test_files_become_one_file_with_their_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    months(tmp_path, 3)
    out = tmp_path / "out.nc"
    assert cli.main(["aggregate", f"{tmp_path}/m*.nc", "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 1 array of 3 files: tas\n"
    whole = xr.concat([xr.open_dataset(tmp_path / f"m{n}.nc") for n in range(3)], "time")
    np.testing.assert_array_equal(cfagg.read(out)["tas"].values, whole["tas"].values)


def test_without_an_output_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = months(tmp_path, 3)
    assert cli.main(["aggregate", str(tmp_path)]) == 0
    assert "3 joined along time" in capsys.readouterr().out
    assert sorted(map(str, tmp_path.iterdir())) == names


def test_the_output_in_its_own_directory_is_no_input(tmp_path: Path) -> None:
    months(tmp_path, 3)
    for _ in range(2):
        assert cli.main(["aggregate", str(tmp_path), "-o", f"{tmp_path}/out.nc", "--overwrite"]) == 0
        assert cfagg.read(tmp_path / "out.nc")["tas"].sizes["time"] == 6


def test_the_output_is_no_input_under_another_name_either(tmp_path: Path) -> None:
    months(tmp_path / "real", 3)
    (tmp_path / "link").symlink_to("real")
    for _ in range(2):
        out = f"{tmp_path}/link/out.nc"
        assert cli.main(["aggregate", f"{tmp_path}/link", f"{tmp_path}/link/*.nc", "-o", out, "--overwrite"]) == 0
        assert cfagg.read(out)["tas"].sizes["time"] == 6
    (tmp_path / "hard.nc").hardlink_to(out)
    assert cli.main(["aggregate", str(tmp_path / "hard.nc"), "-o", out, "--append"]) == 2


def test_a_file_with_values_is_not_replaced_by_an_aggregation_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = months(tmp_path, 3)
    before = Path(names[1]).read_bytes()
    for files in (names, [str(tmp_path)], [f"{tmp_path}/*.nc"]):
        assert cli.main(["aggregate", *files, "-o", names[1], "--overwrite"]) == 2
        assert "its values would be lost" in capsys.readouterr().err
    assert Path(names[1]).read_bytes() == before


@pytest.mark.parametrize("page", ["out.nc", "./out.nc", "out.nc.cfagg-index"])
def test_the_page_is_not_written_over_the_output(
    tmp_path: Path, page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    months(tmp_path, 2)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["aggregate", "m*.nc", "-o", "out.nc", "--html", page]) == 2
    assert "would replace" in capsys.readouterr().err
    assert not Path("out.nc").exists()


def test_an_output_is_not_replaced_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    months(tmp_path, 2)
    out = tmp_path / "out.nc"
    out.write_text("mine")
    assert cli.main(["aggregate", f"{tmp_path}/m*.nc", "-o", str(out)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert out.read_text() == "mine"


def test_names_come_from_standard_input_and_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = months(tmp_path, 3)
    # Names of bytes that are no text, and with what else ends a line in Python.
    odd = [os.fsdecode(os.fsencode(tmp_path) + end) for end in (b"/a\xff.nc", "/b\x85\u2028\x0b.nc".encode())]
    for name, new in zip(names, odd, strict=False):
        Path(name).rename(new)
    (tmp_path / "list").write_bytes(os.fsencode(f"{odd[1]}\r\n\n"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(os.fsencode(f"{odd[0]}\n")), encoding="utf-8"))
    assert cli.main(["aggregate", names[2], "--files-from", "-", "--files-from", str(tmp_path / "list")]) == 0
    assert "3 joined along time" in capsys.readouterr().out


def test_unreadable_files_end_with_2_and_are_all_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    months(tmp_path, 2)
    (tmp_path / "x.nc").write_bytes(b"nothing")
    (tmp_path / "y.nc").write_bytes(b"CDF\x01")
    assert cli.main(["aggregate", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "2 of 4 files cannot be read; --skip-errors leaves them out" in said
    assert "x.nc" in said
    assert "y.nc" in said


def test_skipped_files_are_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    months(tmp_path, 2)
    (tmp_path / "x.nc").write_bytes(b"nothing")
    out = f"{tmp_path}/out.nc"
    assert cli.main(["aggregate", str(tmp_path), "--skip-errors", "-o", out]) == 0
    found = capsys.readouterr()
    assert "1 array of 2 files" in found.out
    assert "x.nc is not a netCDF file" in found.err


def test_why_tells_it_of_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    months(tmp_path, 2)
    month(tmp_path / "x.nc", 1, days=3)
    assert cli.main(["aggregate", str(tmp_path), "--why", "m1.nc", "x.nc"]) == 0
    assert "overlap along time" in capsys.readouterr().out


def test_remedies_name_options_of_the_command_in_every_form_and_keywords_in_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "files").mkdir()
    months(tmp_path / "files", 2)
    shutil.copy(tmp_path / "files" / "m0.nc", tmp_path / "files" / "copy.nc")
    command, said = ["aggregate", str(tmp_path / "files")], "--on-overlap first or --on-overlap last takes one of them"
    for form in (["--explain"], ["--json"], ["--why", "m0.nc", "copy.nc"]):
        assert cli.main([*command, *form]) == 0
        out = capsys.readouterr().out
        assert said in out
        assert "on_overlap=" not in out
    assert cli.main([*command, "--html", f"{tmp_path}/page.html"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert said in page
    assert "on_overlap=" not in page
    assert "on_overlap='first'" in str(cfagg.aggregate(tmp_path / "files").cfagg.report)


# Those of overlaps are in the reports above.
@pytest.mark.parametrize("rule", sorted({*get_args(Rule)} - {"overlap", "crowded"}))
def test_no_remedy_of_the_command_names_a_keyword_of_python(rule: str) -> None:
    remedies = {remedy_of(rule, what, None, None, Options()) for what in ("identity", "names of attributes", "time")}
    problems = ("has no units", "has no standard name", "no coordinate with a standard name", "has no attribute 'x'")
    remedies |= {remedy_of("problem", "problem", problem, None, Options()) for problem in problems}
    for remedy in remedies:
        assert not re.search(r"[a-z]=", as_options(remedy))


def test_html_is_a_page_that_is_not_replaced_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    months(tmp_path, 2)
    command = ["aggregate", f"{tmp_path}/*.nc", "--html", f"{tmp_path}/page.html"]
    assert cli.main(command) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert cli.main(command) == 2
    assert cli.main([*command, "--overwrite"]) == 0


@pytest.mark.parametrize("given", [["--append"], ["--update"], ["--to", "CF-1.13"], ["--relative-to", "/"]])
def test_what_is_about_an_output_needs_one(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    months(tmp_path, 1)
    assert cli.main(["aggregate", str(tmp_path), *given]) == 2
    assert f"{given[0]} concerns a written file" in capsys.readouterr().err


def test_no_files_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["aggregate"]) == 2
    assert "no files were given" in capsys.readouterr().err


def test_every_rule_is_an_option_and_says_what_it_does() -> None:
    assert {f.name for f in fields(Options)} <= {name for name, *_ in RULES}


def test_rules_reach_the_joining(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    month(tmp_path / "a.nc", 0, days=3)
    month(tmp_path / "b.nc", 9, days=2)
    assert cli.main(["aggregate", str(tmp_path), "--contiguous"]) == 0
    assert "there is a gap" in capsys.readouterr().out


def test_the_command_alone_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "cfagg aggregate data/ -o temperature.nc" in capsys.readouterr().out


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    listing = "\n".join(months(tmp_path / "in", 2))
    fifo = tmp_path / "list"
    os.mkfifo(fifo)
    code = "import sys; from cfagg.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "aggregate", "--files-from", str(fifo), "-o", str(tmp_path / "out.nc")]

    def heard() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heard)
    with fifo.open("w") as stream:  # it waits for names from here on
        stream.write(listing)
        stream.flush()
        time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=600)
    assert running.returncode == 130
    assert "interrupted" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "list"]


def test_json_of_the_explanation_has_all_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    months(tmp_path, 2)
    assert cli.main(["aggregate", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["groups"]["first"][0]["rule"] == "2 joined along time"
    assert found["target"] is None


def test_files_are_added_to_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = months(tmp_path, 3)
    out = f"{tmp_path}/out.nc"
    assert cli.main(["aggregate", *names[:2], "-o", out]) == 0
    assert cli.main(["aggregate", names[2], "-o", out, "--append"]) == 0
    assert "1 array of 3 files" in capsys.readouterr().out
    np.testing.assert_array_equal(cfagg.read(out)["tas"].values, cfagg.aggregate(names)["tas"].values)
    month(Path(names[0]), 0, days=2).touch()
    assert cli.main(["aggregate", "-o", out, "--append", "--files-from", "/dev/null"]) == 2
    assert cli.main(["aggregate", names[2], "-o", out, "--append"]) == 2
    assert "--update" in capsys.readouterr().err
    assert cli.main(["aggregate", names[2], "-o", out, "--append", "--update"]) == 0


def test_a_dask_cluster_reads_the_headers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from distributed import LocalCluster

    months(tmp_path, 3)
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        assert cli.main(["aggregate", str(tmp_path), "--dask", cluster.scheduler_address]) == 0
    assert "3 joined along time" in capsys.readouterr().out


def test_a_scheduler_that_does_not_answer_is_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    months(tmp_path, 1)
    assert cli.main(["aggregate", str(tmp_path), "--dask", "nowhere:1:1"]) == 2
    assert "no Dask scheduler answers at nowhere:1:1" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["nonsense", "T", "T:size=1", ":cellsize=1 day"])
def test_conditions_of_cells_are_checked(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["aggregate", "a.nc", "--cells", given]) == 2
    assert "no condition such as" in capsys.readouterr().err


def test_conditions_of_cells_reach_the_joining(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    months(tmp_path, 2)
    assert cli.main(["aggregate", str(tmp_path), "--cells", "T:spacing=1 day", "--cells", "T:spacing=1 month"]) == 0
    assert cli.main(["aggregate", str(tmp_path), "--cells", "common"]) == 0
    assert capsys.readouterr().out.count("2 joined along time") == 2
