"""The `cfagg check` and `cfagg explain` commands."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import netCDF4
import pytest

from cfagg.checking.engine import KEPT
from cfagg.checking.registry import registered
from cfagg.cli.main import main
from cfagg.demo import sample
from cfagg.formats.cdl.parsing import parse_cdl
from tests.checking.samples import BROKEN, CLEAN, UNTIDY, written
from tests.checking.writing import write_cdl, write_netcdf


@pytest.fixture
def paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return written(tmp_path, broken=BROKEN, clean=CLEAN, untidy=UNTIDY)


def run(capsys, *args):
    status = main(["check", *map(str, args)])
    return status, *capsys.readouterr()


def found(capsys, *args):
    """Return the status and the codes of each source."""
    status, out, _ = run(capsys, *args, "--format", "json")
    return status, [[f["code"] for f in source["findings"]] for source in json.loads(out)]


# ---- exit status


def test_a_clean_file_exits_with_0(paths, capsys):
    status, out, err = run(capsys, paths["clean"])
    assert (status, err) == (0, "")
    assert out.splitlines()[0].endswith("clean.cdl: CF-1.13, no findings")


def test_a_refused_fix_names_options_and_no_keywords(paths, capsys):
    status, _, err = run(capsys, sample("test1.nc"), "--fix", "-o", paths["untidy"])
    assert (status, "pass --overwrite to replace it" in err, "=True" in err) == (2, True, False)


def test_errors_exit_with_1(paths, capsys):
    assert run(capsys, paths["broken"], paths["clean"])[0] == 1


def test_warnings_exit_with_0_unless_strict(paths, capsys):
    assert run(capsys, paths["untidy"])[0] == 0
    assert run(capsys, paths["untidy"], "--strict")[0] == 1


def test_a_file_that_cannot_be_opened_exits_with_2_and_the_rest_is_checked(paths, capsys):
    status, out, err = run(capsys, "none.nc", paths["broken"])
    assert (status, err) == (2, "")
    assert "none.nc: not checked" in out
    assert "DOC006" in out
    assert "1 source not checked" in out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--cf-version", "3.0"], "not a version of CF"),
        (["--select", "NONE"], "no rule has a code that begins with 'NONE'"),
        (["--select", "NONE", "--format", "junit"], "no rule has a code that begins with 'NONE'"),
        (["--select", "NONE", "--format", "sarif"], "no rule has a code that begins with 'NONE'"),
        (["--in-place"], "--in-place needs --fix"),
        (["--unsafe-fixes"], "--unsafe-fixes needs --fix"),
        (["--fix", "-o", "-"], "--fix writes a dataset, which cannot go to standard output; name a file"),
        (["--fix", "--in-place", "-o", "x.nc"], "exclude each other"),
        (["--fix", "--format", "json"], "prints changes as text"),
        (["--statistics", "--format", "html"], "--statistics has the formats text and json"),
        (["--config", "none.toml"], "none.toml"),
        (["--standard-names", "none.xml"], "none.xml"),
        (["-o", "clean.cdl"], "exists; pass --overwrite"),
        (["-o", "no/such/place.txt"], "there is no directory"),
        (["--jobs", "0"], "not a positive number"),
        (["--format", "yaml"], "invalid choice"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_why(paths, capsys, options, told):
    status, out, err = run(capsys, paths["clean"], *options)
    assert (status, out) == (2, "")
    assert told in err


def test_a_directory_with_nothing_to_check_is_wrong_usage(paths, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    status, _, err = run(capsys, "empty")
    assert status == 2
    assert "empty is a directory without netCDF files" in err


@pytest.mark.parametrize("options", [[], ["--fix"]])
def test_the_other_sources_are_checked_beside_a_directory_with_nothing_to_check(paths, tmp_path, capsys, options):
    (tmp_path / "empty").mkdir()
    status, out, err = run(capsys, "empty", paths["broken"], *options)
    assert status == 2
    assert "empty is not a Zarr store" in out + err
    assert "broken" in out + err


# ---- what is checked


def test_select_and_ignore_take_several_codes_and_may_be_repeated(paths, capsys):
    (codes,) = found(capsys, paths["broken"], "--select", "DOC006,UNI")[1]
    assert sorted(codes) == ["DOC006", "UNI002"]
    assert found(capsys, paths["broken"], "--ignore", "DOC", "--ignore", "UNI")[1] == [[]]


def test_the_version_is_that_of_the_option(paths, capsys):
    _, out, _ = run(capsys, paths["clean"], "--cf-version", "1.7")
    assert "CF-1.7" in out


def test_a_directory_stands_for_the_files_and_stores_below_it(paths, tmp_path, capsys):
    (tmp_path / "a/.hidden").mkdir(parents=True)
    (tmp_path / "a/store.zarr/sub.nc").mkdir(parents=True)
    (tmp_path / "a/store.zarr/zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    for name in ("a/two.cdl", "a/one.cdl", "a/.hidden/three.cdl", "a/note.txt"):
        (tmp_path / name).write_text(CLEAN)
    _, out, _ = run(capsys, "a", "--format", "json")
    assert [s["source"] for s in json.loads(out)] == ["a/one.cdl", "a/store.zarr", "a/two.cdl"]


def test_a_sample_file_passes(capsys):
    status, codes = found(capsys, sample("test1.nc"))
    assert status == 0
    assert len(codes) == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_many_files_are_told_in_order_whatever_the_number_of_processes(paths, tmp_path, jobs):
    names = [f"{n:02}.cdl" for n in range(30)]
    for n, name in enumerate(names):
        (tmp_path / name).write_text([CLEAN, BROKEN, UNTIDY][n % 3])
    done = cfagg("check", *names, "--jobs", jobs, "--format", "json", cwd=tmp_path)
    sources = json.loads(done.stdout)
    assert [s["source"] for s in sources] == names
    assert [len(s["findings"]) for s in sources] == [0, 3, 1] * 10
    assert (done.returncode, done.stderr) == (1, "")


def cfagg(*args, cwd=None, **env):
    return subprocess.run(
        [sys.executable, "-m", "cfagg", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **env},
    )


# ---- how it is told


def test_the_json_form_is_one_list_with_the_documented_members(paths, capsys):
    _, out, _ = run(capsys, paths["broken"], paths["clean"], "--format", "json")
    first, second = json.loads(out)
    assert list(first) == ["form", "form_version", "source", "cf_version", "findings"]
    assert first["cf_version"] == "1.8"
    assert {f["severity"] for f in first["findings"]} == {"error", "warning"}
    form = {"form": "cfagg check", "form_version": 1}
    assert second == {**form, "source": paths["clean"], "cf_version": "1.13", "findings": []}


def test_every_format_can_be_written_to_a_file(paths, tmp_path, capsys):
    reads = {
        "text": lambda text: "DOC006" in text,
        "json": lambda text: json.loads(text)[0]["findings"],
        "sarif": lambda text: json.loads(text)["runs"][0]["results"],
        "junit": lambda text: ET.fromstring(text)[0].get("failures") == "2",
        "github": lambda text: text.startswith("::error "),
        "html": lambda text: text.startswith("<!DOCTYPE html>"),
    }
    for name, read in reads.items():
        status, out, _ = run(capsys, paths["broken"], "--format", name, "-o", tmp_path / name)
        assert (status, out) == (1, "")
        assert read((tmp_path / name).read_text(encoding="utf-8"))


def test_an_output_is_replaced_only_when_asked_for(paths, tmp_path, capsys):
    target = tmp_path / "report.txt"
    target.write_text("old")
    assert run(capsys, paths["clean"], "-o", target)[0] == 2
    assert target.read_text() == "old"
    assert run(capsys, paths["clean"], "-o", target, "--overwrite")[0] == 0
    assert "clean.cdl" in target.read_text()


def test_an_output_is_not_put_into_a_zarr_store(paths, tmp_path, capsys):
    (tmp_path / "s.zarr" / "tas").mkdir(parents=True)
    (tmp_path / "s.zarr" / "zarr.json").write_text("{}")
    for name in ("s.zarr/x.txt", "s.zarr/tas/x.txt"):
        status, _, said = run(capsys, paths["clean"], "--output", tmp_path / name)
        assert status == 2
        assert "s.zarr; choose another place" in said
    assert not [*tmp_path.rglob("x.txt")]


def test_quiet_prints_nothing(paths, capsys):
    assert run(capsys, paths["broken"], "--quiet") == (1, "", "")


def test_quiet_still_writes_an_output(paths, tmp_path, capsys):
    assert run(capsys, paths["broken"], "--quiet", "-o", tmp_path / "report.txt") == (1, "", "")
    assert "DOC006" in (tmp_path / "report.txt").read_text()


def test_statistics_count_findings_by_rule(paths, capsys):
    status, out, _ = run(capsys, paths["broken"], paths["untidy"], "--statistics")
    assert status == 1
    assert out.splitlines()[0].split()[:3] == ["2", "DOC004", "warning"]
    _, out, _ = run(capsys, paths["broken"], paths["untidy"], "--statistics", "--format", "json")
    assert {"code": "DOC004", "count": 2}.items() <= json.loads(out)[0].items()


def test_skipped_rules_are_told_with_their_reasons_when_asked_for(paths, capsys):
    assert "values are read only with --data" in run(capsys, paths["clean"], "--show-skipped")[1]
    assert "--data" not in run(capsys, paths["clean"])[1]


def on_terminal(*args, cwd, **env) -> str:
    """Return what the command prints on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "cfagg", *args], stdout=theirs, stderr=theirs, stdin=theirs, cwd=cwd,
        env={**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, "TERM": "xterm", "COLUMNS": "70", **env},
    )  # fmt: skip
    os.close(theirs)
    told = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        if not piece:
            break
        told += piece
    process.wait(timeout=300)
    os.close(ours)
    return told.decode()


def test_a_terminal_gets_colours_and_lines_of_its_width(paths, tmp_path):
    told = on_terminal("check", "broken.cdl", "clean.cdl", cwd=tmp_path)
    assert "\x1b[31merror  \x1b[0m DOC006" in told
    plain = told.replace("\r", "")
    for colour in ("0", "1", "2", "31", "32", "33", "36"):
        plain = plain.replace(f"\x1b[{colour}m", "")
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= 70


def test_no_color_is_honoured_on_a_terminal(paths, tmp_path):
    assert "\x1b" not in on_terminal("check", "broken.cdl", cwd=tmp_path, NO_COLOR="1")
    assert "\x1b" not in on_terminal("check", "broken.cdl", cwd=tmp_path, TERM="dumb")


def test_colours_can_be_forced_and_are_not_used_in_pipes(paths, capsys):
    assert "\x1b[31m" in run(capsys, paths["broken"], "--color", "always")[1]
    assert "\x1b" not in run(capsys, paths["broken"])[1]


@pytest.mark.full
def test_a_bar_counts_sources_on_a_terminal_when_the_report_goes_elsewhere(paths, tmp_path):
    told = on_terminal("check", "broken.cdl", "clean.cdl", "-o", "report.txt", cwd=tmp_path)
    assert "sources" in told
    assert "DOC006" in (tmp_path / "report.txt").read_text()


def test_the_end_of_a_pipe_ends_the_check_quietly(paths, tmp_path):
    names = [f"{n:03}.cdl" for n in range(300)]
    for name in names:
        (tmp_path / name).write_text(BROKEN)
    command = f"{sys.executable} -m cfagg check *.cdl | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


# ---- settings


def test_settings_are_found_above_the_file_and_can_be_left_aside(paths, tmp_path, capsys):
    (tmp_path / "cfagg.toml").write_text('[check]\nignore = ["DOC", "UNI"]\n')
    assert found(capsys, paths["broken"]) == (0, [[]])
    assert found(capsys, paths["broken"], "--no-config")[0] == 1


def test_options_replace_settings(paths, tmp_path, capsys):
    (tmp_path / "cfagg.toml").write_text('[check]\nignore = ["DOC", "UNI"]\ncf-version = "1.6"\n')
    assert found(capsys, paths["broken"], "--ignore", "DOC")[1] == [["UNI002"]]
    assert "CF-1.7" in run(capsys, paths["broken"], "--cf-version", "1.7")[1]


def test_strictness_can_be_a_setting(paths, tmp_path, capsys):
    (tmp_path / "cfagg.toml").write_text("[check]\nstrict = true\n")
    assert run(capsys, paths["untidy"])[0] == 1


def test_settings_of_each_file_are_its_own(paths, tmp_path, capsys):
    (tmp_path / "a").mkdir()
    shutil.copy(paths["broken"], tmp_path / "a")
    (tmp_path / "a/pyproject.toml").write_text('[tool.cfagg.check]\nignore = ["DOC", "UNI"]\n')
    assert [len(codes) for codes in found(capsys, paths["broken"], "a/broken.cdl")[1]] == [3, 0]


def test_suppressed_findings_are_counted_and_unused_suppressions_told(paths, tmp_path, capsys):
    (tmp_path / "cfagg.toml").write_text(
        '[check.per-file-ignores]\n"broken.cdl" = ["DOC006"]\n"clean.cdl" = ["UNI"]\n"elsewhere/*" = ["UNI"]\n'
        '[[check.suppress]]\ncodes = ["UNI"]\nvariables = ["2m"]\n'
    )
    status, out, err = run(capsys, paths["broken"], paths["clean"])
    assert status == 0
    assert "2 suppressed" in out
    assert err.splitlines() == [
        f"note: {tmp_path}/cfagg.toml: the suppression UNI in clean.cdl is unused and can be removed"
    ]


def test_a_mistake_in_the_settings_is_told_with_its_file(paths, tmp_path, capsys):
    (tmp_path / "cfagg.toml").write_text("[check]\nselct = []\n")
    status, _, err = run(capsys, paths["clean"])
    assert status == 2
    assert "cfagg.toml: 'selct' is not a setting" in err


# ---- putting right

OLD = """
netcdf old {
dimensions:
  time = 2 ;
variables:
  double time(time) ;
    time:standard_name = "time" ;
    time:axis = "T" ;
    time:units = "days since 2000-01-01" ;
    time:calendar = "gregorian" ;
:Conventions = "CF-1.13" ;
data:
  time = 1, 2 ;
}
"""


@pytest.fixture
def old(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with parse_cdl(OLD) as dataset:
        write_netcdf(dataset, tmp_path / "old.nc")
    return tmp_path / "old.nc"


DIFFERENCE = ['-  time:calendar = "gregorian" ;', '+  time:calendar = "standard" ;']


def test_fix_shows_what_would_be_changed_and_changes_nothing(old, capsys):
    before = old.read_bytes()
    status, out, err = run(capsys, "old.nc", "--fix")
    assert status == 0
    assert out.splitlines()[-2:] == DIFFERENCE
    assert "1 change to make; --output or --in-place writes them" in err
    assert old.read_bytes() == before
    assert list(old.parent.iterdir()) == [old]


def test_fix_writes_a_copy_that_passes(old, capsys):
    before = old.read_bytes()
    status, out, err = run(capsys, "old.nc", "--fix", "-o", "new.nc")
    assert status == 0
    assert out.splitlines()[-2:] == DIFFERENCE
    assert "1 change written to new.nc; 0 errors and 0 warnings left" in err
    assert old.read_bytes() == before
    assert found(capsys, "old.nc", "new.nc")[1] == [["TIM015"], []]


def test_fix_changes_files_in_place_when_asked(old, capsys):
    shutil.copy(old, "other.nc")
    assert run(capsys, "old.nc", "other.nc", "--fix", "--in-place")[0] == 0
    assert found(capsys, "old.nc", "other.nc")[1] == [[], []]


def test_fix_replaces_an_output_only_when_asked(old, capsys):
    Path("new.nc").write_text("precious")
    status, _, err = run(capsys, "old.nc", "--fix", "-o", "new.nc")
    assert status == 2
    assert "new.nc" in err
    assert Path("new.nc").read_text() == "precious"
    assert run(capsys, "old.nc", "--fix", "-o", "new.nc", "--overwrite")[0] == 0


def test_fix_leaves_suppressed_findings_alone(old, capsys):
    Path("cfagg.toml").write_text('[check.per-variable-ignores]\ntime = ["TIM015"]\n')
    status, out, err = run(capsys, "old.nc", "--fix")
    assert (status, out) == (0, "")
    assert "nothing to change" in err


def test_fix_writes_past_suppressed_errors_and_changes_nothing_that_is_suppressed(old, capsys):
    more = """  double then ; then:standard_name = "time" ;
    then:units = "days since 2001-01-01" ; then:calendar = "gregorian" ;
    float p ; p:standard_name = "air_pressure" ;
:Conventions"""
    with parse_cdl(OLD.replace(":Conventions", more, 1)) as dataset:
        write_netcdf(dataset, old)
    Path("cfagg.toml").write_text('[check.per-variable-ignores]\nthen = ["TIM015"]\np = ["UNI001"]\n')
    status, out, err = run(capsys, "old.nc", "--fix", "-o", "new.nc")
    assert (status, out.splitlines()[-2:]) == (0, DIFFERENCE), err
    with netCDF4.Dataset("new.nc") as file:
        assert (file["time"].calendar, file["then"].calendar) == ("standard", "gregorian")


def test_fix_changes_more_than_a_report_lists(tmp_path, capsys):
    declared = "".join(f'float p{k} ; p{k}:Units = "1" ;' for k in range(KEPT + 5))
    path = tmp_path / "many.cdl"
    path.write_text(f'netcdf many {{ variables: {declared} :Conventions = "CF-1.13" ; }}')
    _, _, err = run(capsys, path, "--fix", "--select", "ATT003")
    assert "1,005 changes to make" in err


def test_fix_exits_with_1_where_errors_are_left(paths, capsys):
    status, _, err = run(capsys, paths["broken"], "--fix")
    assert status == 1
    assert "2 errors and 1 warning" in err


def test_fix_says_what_it_cannot_write(old, capsys):
    Path("old.cdl").write_text(OLD)
    status, _, err = run(capsys, "old.cdl", "--fix", "-o", "new.cdl")
    assert status == 2
    assert "cannot be changed" in err
    assert not Path("new.cdl").exists()


def test_fix_goes_on_after_a_source_that_cannot_be_opened(old, capsys):
    status, out, err = run(capsys, "none.nc", "old.nc", "--fix")
    assert status == 2
    assert "none.nc: not checked" in err
    assert out.splitlines()[-2:] == DIFFERENCE


# ---- explain


def explain(capsys, *args):
    status = main(["explain", *args])
    return status, *capsys.readouterr()


def test_a_rule_is_explained_with_its_section_and_examples(capsys):
    status, out, err = explain(capsys, "DOC006")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("DOC006: ")
    assert lines[1].startswith("error, CF 2.4 Dimensions")
    assert lines[2].endswith("cf-conventions.html#dimensions")
    assert "An example that fails:" in lines
    assert "An example that passes:" in lines


def test_the_examples_are_cdl_that_can_be_checked(tmp_path, capsys):
    (told,) = json.loads(explain(capsys, "DOC006", "--json")[1])
    for name in ("fails", "passes"):
        (tmp_path / f"{name}.cdl").write_text(told[name])
    assert found(capsys, tmp_path / "fails.cdl", tmp_path / "passes.cdl")[1] == [["DOC006"], []]


def test_without_codes_every_rule_is_listed(capsys):
    status, out, _ = explain(capsys)
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == list(registered())


def test_the_beginning_of_codes_and_small_letters_are_understood(capsys):
    found = json.loads(explain(capsys, "grp", "INT001", "--json")[1])
    assert [r["code"] for r in found] == [c for c in registered() if c.startswith("GRP") or c == "INT001"]


def test_the_sections_of_older_versions_are_told(capsys):
    assert "in older versions: 4.4.1 to CF-1.11, 4.4.2 to CF-1.12" in explain(capsys, "TIM010")[1]
    (told,) = json.loads(explain(capsys, "TIM010", "--json")[1])
    assert told["older_sections"] == {"CF-1.11": "4.4.1", "CF-1.12": "4.4.2"}


def test_every_rule_can_be_explained(capsys):
    status, out, _ = explain(capsys, *registered())
    assert status == 0
    assert all(f"{code}: " in out for code in registered())


def test_an_unknown_code_exits_with_2(capsys):
    status, out, err = explain(capsys, "XYZ")
    assert (status, out) == (2, "")
    assert "XYZ" in err
    assert "DOC" in err


def test_findings_about_the_check_are_explained_without_examples(capsys):
    out = explain(capsys, "INT001")[1]
    assert "report the dataset and the message" in " ".join(out.split())
    assert "An example" not in out


# ---- start-up


def test_a_check_of_netcdf_loads_none_of_the_array_libraries(tmp_path):
    script = (
        "import sys; from cfagg.cli.main import main; "
        f"status = main(['check', {str(Path(sample('test1.nc')))!r}, '--quiet']); "
        "print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    heavy = {"dask", "distributed", "matplotlib", "numba", "pandas", "rich", "xarray", "zarr", "jsonschema", "fsspec"}
    assert not heavy & set(done.stdout.split())


def piped(data: bytes, *args):
    done = subprocess.run(
        [sys.executable, "-m", "cfagg", "check", *map(str, args)], input=data, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_dash_is_one_dataset_on_standard_input(paths, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = set(tmp_path.iterdir())
    status, out, _ = piped(Path(paths["broken"]).read_bytes(), "-", "--json")
    assert status == 1
    (found,) = json.loads(out)
    assert found["source"] == "standard input"
    assert {"DOC006", "UNI002"} <= {f["code"] for f in found["findings"]}
    netcdf = write_cdl(Path(paths["clean"]).read_text(encoding="utf-8"), tmp_path / "clean.weather")
    before.add(netcdf)
    # A pipe has no name that could lack its suffix.
    assert piped(netcdf.read_bytes(), "-", "-q") == (0, "", "")
    assert piped(netcdf.read_bytes(), "/dev/stdin")[0] in (0, 2)  # 2: a pipe that a path leads to is not opened
    with netcdf.open("rb") as file:
        done = subprocess.run([sys.executable, "-m", "cfagg", "check", "/dev/stdin"], stdin=file, check=False)
    assert done.returncode == 0
    assert set(tmp_path.iterdir()) == before


@pytest.mark.few(1)
@pytest.mark.parametrize("data", [b"", b"neither", b"\x89HDF\r\n\x1a\n" + bytes(40)], ids=["empty", "text", "cut"])
def test_what_is_no_dataset_on_standard_input_is_one_clear_message(data):
    status, out, err = piped(data, "-")
    assert (status, err) == (2, "")
    assert "standard input" in out
    assert "cfagg-" not in out


@pytest.mark.parametrize(("args", "said"), [(["-", "-"], "only once"), (["-", "--fix"], "--fix needs a file")])
def test_standard_input_is_read_once_and_not_fixed(args, said):
    status, _, err = piped(b"netcdf a { }", *args)
    assert status == 2
    assert said in err
