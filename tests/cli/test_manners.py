"""What the command says to those who mistype a name, may not read or write, or give something of another kind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cfagg
from cfagg.cli import main as cli
from cfagg.cli import output
from cfagg.demo import sample
from cfagg.errors import CfaggError, TargetError, TargetExistsError
from tests.rights import unprivileged

REFUSED = "Permission denied"


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """Return a directory with a readable file, one that may not be read, and a directory that may not be listed."""
    shutil.copy(sample("test1.nc"), tmp_path / "a.nc")
    shutil.copy(sample("test1.nc"), tmp_path / "b.nc")
    (tmp_path / "b.nc").chmod(0)
    (tmp_path / "c").mkdir(0)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with unprivileged():
        status = cli.main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("verb", [("show",), ("convert", "-o", "x.zarr")])
def test_a_file_that_may_not_be_read_is_named_once(
    closed: Path, verb: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(closed)
    assert said(capsys, *verb, closed / "b.nc") == (2, "", f"error: {closed / 'b.nc'} cannot be opened: {REFUSED}\n")


def test_check_reports_what_may_not_be_read_and_goes_on(closed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = said(capsys, "check", closed)
    assert (status, err) == (2, "")
    assert f"{closed / 'a.nc'}: CF-1.5" in out
    assert f"{closed / 'b.nc'} cannot be opened: {REFUSED}" in out
    assert f"{closed / 'c'}: not checked" in out
    assert "3 sources: " in out
    assert "2 sources not checked" in out
    status, out, _ = said(capsys, "check", closed / "c" / "d.nc")
    assert status == 2
    assert f"d.nc cannot be opened: {REFUSED}" in out


@pytest.mark.parametrize(
    "command",
    [
        ("convert", "test1.nc", "TARGET.zarr"),
        ("obs", "create", "RECIPE", "TARGET.zarr"),
        ("show", "test1.nc", "-o", "TARGET"),
    ],
)
def test_a_target_that_may_not_be_written_is_named_once(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"dates: {{start: 2003, end: 2006, frequency: 1d}}\ninput: {{netcdf: {{path: {sample('storms.nc')}}}}}\n"
        "output: {layout: tabular}\n",
        encoding="utf-8",
    )
    folder = tmp_path / "folder"
    folder.mkdir(0o555)
    places = {"test1.nc": str(sample("test1.nc")), "RECIPE": str(recipe)}
    status, _, err = said(capsys, *(places.get(c, c.replace("TARGET", f"{folder}/new")) for c in command))
    assert status == 2
    assert err.endswith(f" cannot be written: {REFUSED}; get permission to write there, or choose another place\n")
    assert err.count(str(folder)) == 1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("check", "gone.nc"), "there is no file gone.nc; check the path"),
        (
            ("convert", "sst.nca", "x.zarr", "--variable", "sst"),
            "sst.nca has no variable 'sst'; its variables are: time,",
        ),
        (("convert", "sst.nca", "x.zarr", "--chunks", "tme=3"), "chunks of 'tme': no converted variable of"),
        (
            ("convert", "sst/*.nc", "x.zarr"),
            "sst/*.nc; check the path; files that match a pattern are joined by cfagg.aggregate (cfagg aggregate)",
        ),
        (("convert", ".", "x.zarr"), "is not a Zarr store: it has neither zarr.json nor .zgroup"),
        (("show", "sst.nca", "--plot", "x.bmp"), "the picture x.bmp cannot be drawn: its name must end in .png"),
        (
            ("obs", "create", "gone.yaml", "x.nc"),
            "x.nc would be a Zarr store, which is a directory, but its name ends with",
        ),
        (("show", "sst.nca", "--plot", "x.png", "-o", "./x.png"), "--plot and --output are the same file, x.png; give"),
        (("obs", "check", "sst"), "sst: not checked"),
        (("show", "sst/0.txt"), "expected netCDF, PP or a fields file"),
        (("check", "sst/0.txt"), "expected netCDF, Zarr, PP, a fields file or CDL"),
    ],
)
def test_a_message_names_the_file_and_what_was_wrong_with_the_command(
    command: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name in ("sst.nca", "test1.nc"):
        shutil.copy(sample(name), tmp_path)
    shutil.copytree(sample("sst"), tmp_path / "sst")
    (tmp_path / "sst" / "0.txt").write_text("no data\n")
    monkeypatch.chdir(tmp_path)
    assert cli.main(list(command)) in (1, 2)
    captured = capsys.readouterr()
    assert message in captured.out + captured.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sst", "sst.nca", "test1.nc"]


def test_a_file_without_references_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    path = sample("test1.nc")
    assert cli.main(["show", str(path), "--references"]) == 0
    assert capsys.readouterr() == ("", f"note: {path} refers to no other files\n")
    assert cli.main(["show", str(path), "--references", "-q"]) == 0
    assert capsys.readouterr() == ("", "")


def test_an_unknown_option_is_answered_by_its_command_with_its_options_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["obs", "window", "a.zarr", "2005", "--date", "2005"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: cfagg obs window ")
    assert said.endswith("cfagg obs window: error: unrecognized arguments: --date 2005\n")


def test_a_long_usage_does_not_hide_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["aggregate", "data", "--rtol", "abc"]) == 2
    assert capsys.readouterr().err == (
        "cfagg aggregate: error: argument --rtol: invalid float value: 'abc'\nsee cfagg aggregate --help\n"
    )


def test_a_directory_of_files_is_answered_with_the_command_for_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(sample("test1.nc"), tmp_path)
    assert cli.main(["show", str(tmp_path)]) == 2
    assert "cfagg aggregate" in capsys.readouterr().err


def test_a_full_disk_is_said_of_the_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(sample("test1.nc")), "--output", "/dev/full"]) == 2
    assert capfd.readouterr().err.startswith("error: /dev/full cannot be written: No space left on device")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_behind_stdout_is_said_of_the_output() -> None:
    command = [sys.executable, "-m", "cfagg", "explain", "DOC001"]
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: the output cannot be written: No space left on device\n")


def test_a_process_without_stdout_works_and_says_nothing() -> None:
    command = f"{sys.executable} -m cfagg explain DOC001 >&-"
    done = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True, check=False, env={**os.environ})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [[], ["explain"]])
def test_a_reader_that_has_gone_ends_the_command_without_a_word(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "cfagg", *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("name", ["a.txt", "a.json"])
def test_a_result_does_not_replace_a_file_that_appeared_meanwhile(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    output.check(str(target), overwrite=False)

    def write(*, overwrite: bool) -> None:
        with output.opened(str(target), overwrite=overwrite) as stream:
            target.write_text("of another process")
            stream.write("result")

    with pytest.raises(TargetExistsError, match=r"exists; pass --overwrite"):
        write(overwrite=False)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(name, "of another process")]
    write(overwrite=True)
    assert target.read_text() == "result"


@pytest.mark.parametrize("name", ["c/new", "x" * 300])
def test_only_errors_of_cfagg_leave_python_calls_with_places_out_of_reach(name: str, closed: Path) -> None:
    source, place = sample("test1.nc"), closed / name
    recipe = {
        "dates": {"start": 2003, "end": 2006, "frequency": "1d"},
        "input": {"netcdf": {"path": sample("storms.nc")}},
        "output": {"layout": "tabular"},
    }
    calls: dict[str, Callable[[], object]] = {
        "convert": lambda: cfagg.convert(source, place),
        "convert from": lambda: cfagg.convert(place, closed / "new"),
        "create": lambda: cfagg.create_observations(recipe, place),
        "convert to netCDF": lambda: cfagg.convert(source, place, to="netcdf"),
        "append": lambda: cfagg.append(place, source, "time"),
        "accumulate": lambda: cfagg.accumulate(place, "tas"),
        "accumulated": lambda: cfagg.open_accumulated(place, "tas"),
        "observations": lambda: cfagg.open_observations(place),
        "read": lambda: cfagg.read(place),
        "show": lambda: cfagg.show(place),
        "check": lambda: cfagg.check(place),
        "report": lambda: cfagg.check(source).to_html(place),
    }
    for what, call in calls.items():
        with unprivileged(), pytest.raises(CfaggError, match=r"Permission denied|File name too long") as caught:
            call()
        assert caught.value.message.count(name) == 1, what
        assert ".cfagg-partial" not in caught.value.message


def of_nobody(folder: Path) -> None:
    """Make what another user's process would leave: a directory with a lock that is theirs alone."""
    folder.mkdir()
    lock = folder / "lock"
    lock.touch(0o600)
    os.chown(lock, 65534, 65534)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files to others")
def test_a_work_directory_of_another_user_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("test1.nc", "test2.nc"):
        shutil.copy(sample(name), name)
    for target, *command in (
        ("x.zarr", "convert", "test1.nc", "x.zarr"),
        ("x.nc", "aggregate", "test1.nc", "test2.nc", "-o", "x.nc"),
    ):
        of_nobody(Path(f".{target}.cfagg-partial"))
        status, out, err = said(capsys, *command)
        assert (status, out) == (2, "")
        whose = f"{tmp_path}/.{target}.cfagg-partial was made by another user"
        assert err == (
            f"error: {tmp_path / target} cannot be written: {whose}; "
            "wait until they have finished, or ask them to remove it\n"
        )
        assert not Path(target).exists()
    cfagg.convert("test1.nc", "a.zarr")
    of_nobody(Path("a.zarr/.cfagg-append"))
    assert said(capsys, "append", "a.zarr", "test2.nc", "--dim", "time")[0] == 2
    with unprivileged(), pytest.raises(TargetError, match=r"/a\.zarr/\.cfagg-append was made by another user"):
        cfagg.append("a.zarr", "test2.nc", "time")


@pytest.mark.parametrize(
    "command",
    [
        ("convert", "a.nca", "fifo", "--to", "netcdf"),
        ("convert", "a.nca", "fifo", "--to", "CF-1.13"),
        ("rebase", "a.nca", "--from", "x", "--to", "y", "-o", "fifo"),
        ("index", "a.nca", "--to", "kerchunk", "-o", "fifo"),
    ],
)
def test_a_fifo_is_never_replaced(
    tmp_path: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(sample("temperature.nca"), "a.nca")
    os.mkfifo("fifo")
    assert cli.main([*command, "--overwrite"]) == 2
    assert "fifo is a FIFO or a device" in capsys.readouterr().err
    assert Path("fifo").is_fifo()


@pytest.mark.parametrize(
    "command",
    [
        ("convert", "--to", "netcdf", "a.nc"),
        ("convert", "--to", "CF-1.13", "a.nc"),
        ("rebase", "a.nc", "--from", "test1.nc", "--to", "x.nc", "-o"),
    ],
)
def test_a_netcdf_file_whose_name_is_not_utf8_is_refused(
    tmp_path: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("temperature.nca", "test1.nc", "test2.nc"):
        shutil.copy(sample(name), name)
    cfagg.convert("temperature.nca", "a.nc", to="CF-1.13")
    before = sorted(tmp_path.iterdir())
    assert cli.main([*command, "\udce9.nc"]) == 2
    assert "path is not UTF-8; give another name" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(os.sep != "/", reason="a backslash is a separator there")
def test_backslashes_that_the_netcdf_library_misreads_are_named(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="backslashes in its path for slashes; give another name"):
        cfagg.convert(sample("figure1.nca"), tmp_path / "a\\b.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["aggregate", "index"])
def test_an_output_without_a_name_is_refused(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([verb, str(sample("test1.nc")), "-o", ""]) == 2
    assert "'' is not a file name; name the file to write" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("show sst.nca -o sst.nca", "is data ("),
        ("show sst.nca --plot pictures.png", "is data ("),
        ("check sst.nca --format html -o sst.nca", "is data ("),
        ("check sst --format json -o sst/2006-04.nc", "is data ("),
        ("check store.zarr -o store.zarr/zarr.json", "would be within the Zarr store"),
        ("aggregate sst --html sst/2006-05.nc", "is data ("),
        ("index sst -o sst/2006-05.nc", "is data ("),
        ("index pp -o pp/air_temp.pp", "is data ("),
    ],
)
def test_reports_pictures_and_indexes_replace_no_data_even_if_they_may_overwrite(
    words: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(sample(), tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    shutil.copy("sst.nca", "pictures.png")
    cfagg.convert("test1.nc", "store.zarr")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    status = cli.main([*words.split(), "--overwrite"])
    assert (status, why in capsys.readouterr().err) == (2, True)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "github", "html"])
def test_a_report_replaces_an_earlier_one_in_any_format(form: str, tmp_path: Path) -> None:
    words = ["check", str(sample("test1.nc")), "--format", form, "-o", str(tmp_path / "report"), "--overwrite"]
    assert [cli.main(words) for _ in range(2)] == [0, 0]


def test_a_file_that_cannot_be_read_is_replaced_by_no_report(closed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, told = said(capsys, "check", closed / "a.nc", "-o", closed / "b.nc", "--overwrite")
    assert status == 2
    assert "b.nc was not replaced, as it may be data" in told
