"""The command as a process: exit status, streams, and what is imported."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from cfagg import errors as cfagg_errors
from cfagg.cli import main as cli
from cfagg.demo import sample


def cfagg(*args, **options):
    command = [sys.executable, "-m", "cfagg", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_version_is_printed_on_stdout(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == "cfagg 0.1.0\n"


def test_help_names_every_command_without_importing_one():
    code = (
        "import sys; from cfagg.cli.main import main; status = main(['--help']); "
        "print(status, sorted(m for m in sys.modules if m in ('numpy', 'cfagg.cli.show', 'cfagg.cli.convert')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert all(name in out for name in cli.COMMANDS)
    assert out.splitlines()[-1] == "0 []"


@pytest.mark.parametrize("arguments", [["unheard-of"], ["show"], ["show", "x", "--rows", "0"], ["--unknown"]])
def test_wrong_usage_ends_with_status_2_and_a_message_on_stderr(arguments, capsys):
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "error" in captured.err


def test_an_error_is_one_sentence_on_stderr_with_status_2():
    done = cfagg("show", "absent.nc")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "absent.nc" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("arguments", [("--debug", "show", "absent.nc"), ("show", "absent.nc", "--debug")])
def test_debug_shows_the_traceback(arguments):
    done = cfagg(*arguments)
    assert "Traceback" in done.stderr
    assert "SourceNotFoundError" in done.stderr


def test_debug_changes_no_status(capsys):
    from cfagg.errors import LossError

    for error, status in ((LossError("lost"), 1), (ValueError("\x1b[31m"), 2), (KeyboardInterrupt("stopped"), 130)):

        def run(args, error=error):
            raise error

        assert cli._guarded(run, cli.argparse.Namespace(debug=True)) == status
        shown = capsys.readouterr().err
        assert "Traceback" in shown
        assert "\x1b" not in shown


def test_an_error_at_the_end_of_interrupted_work_is_told_with_the_interrupt(capsys):
    def run(args):
        error = cfagg_errors.TargetError("what is left")
        error.__context__ = KeyboardInterrupt()
        raise error

    assert cli._guarded(run, cli.argparse.Namespace(debug=False)) == 130
    assert "interrupted: error: what is left" in capsys.readouterr().err


def test_every_problem_of_an_error_is_listed(capsys):
    from cfagg.errors import ConventionError, Problem

    error = ConventionError("two \x1b[31mthings", [Problem("a[0]", "is\nwrong"), Problem("b", "too")])
    lines = cli._message(error).splitlines()
    assert lines == ["error: two \\x1b[31mthings", "  - a[0]: is\\nwrong", "  - b: too"]


def test_an_unexpected_error_is_called_a_bug_and_ends_with_status_2(capsys):
    def run(args):
        return {}["absent"]

    assert cli._guarded(run, cli.argparse.Namespace(debug=False)) == 2
    assert "bug in cfagg" in capsys.readouterr().err


def test_an_error_of_the_system_names_the_file(capsys):
    def run(args):
        raise PermissionError(13, "Permission denied", "/some/where")

    assert cli._guarded(run, cli.argparse.Namespace(debug=False)) == 2
    assert capsys.readouterr().err == "error: /some/where: Permission denied\n"


def test_warnings_are_single_lines_on_stderr():
    done = cfagg("show", sample("temperature_printed.nca"))
    lines = done.stderr.splitlines()
    assert done.returncode == 0
    assert lines
    assert all(line.startswith("warning: ") and "repaired" in line for line in lines)
    assert len(lines) == len(set(lines))


def test_a_closed_pipe_is_quiet():
    command = f"{sys.executable} -m cfagg show {sample('sst.nca')} --rows all | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    # The output may fit into the pipe before its reader goes away.
    assert done.returncode in {0, 141}


@pytest.mark.full
def test_a_pipe_closed_before_the_first_line_ends_with_status_141():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "cfagg", "show", str(sample("sst.nca"))]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == 141


def test_control_c_ends_with_status_130_and_one_line(capsys):
    def run(args):
        signal.raise_signal(signal.SIGINT)
        return 0

    assert cli._guarded(run, cli.argparse.Namespace(debug=False)) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_names_that_the_terminal_cannot_show_are_escaped(tmp_path):
    import netCDF4

    path = tmp_path / "é.nc"
    with netCDF4.Dataset(path, "w") as dataset:
        dataset.createDimension("温度", 3)
    done = cfagg("show", path, env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0
    assert "\\u6e29\\u5ea6" in done.stdout


def test_the_command_alone_shows_the_five_things_people_do(capsys):
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    assert [name for name in ("show", "convert", "check", "mean", "obs create") if f"cfagg {name} " not in shown] == []


@pytest.mark.parametrize("arguments", [["show", "x.nc", "--ref"], ["convert", "a.nc", "b.zarr", "--over"]])
def test_options_are_not_abbreviated(arguments, capsys):
    assert cli.main(arguments) == 2
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["shwo", "x.nc"], "show"),
        (["show", "x.nc", "--refrences"], "--references"),
        (["obs", "creat", "r.yaml", "s.zarr"], "create"),
        (["obs", "create", "r.yaml", "s.zarr", "--overwrit"], "--overwrite"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(arguments, meant, capsys):
    assert cli.main(arguments) == 2
    assert f"did you mean {meant} instead of" in capsys.readouterr().err


def test_messages_of_the_command_name_options_and_no_keywords(tmp_path, capsys):
    (tmp_path / "out.zarr").mkdir()
    assert cli.main(["convert", str(sample("sst.nca")), str(tmp_path / "out.zarr")]) == 2
    said = capsys.readouterr().err
    assert "--overwrite" in said
    assert "=True" not in said


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_gets_its_completion(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("convert", "--on-loss", "--references", "accumulate"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_a_command(tmp_path):
    script = tmp_path / "cfagg.bash"
    script.write_text(cfagg("completion", "bash").stdout, encoding="utf-8")
    ask = f"source {script}; COMP_WORDS=(cfagg conv); COMP_CWORD=1; _shtab_cfagg; echo ${{COMPREPLY[@]}}"
    assert subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout.split() == ["convert"]


@pytest.mark.parametrize("name", [n for n in cli.COMMANDS if n not in ("obs", "completion")])
def test_every_command_has_json_quiet_and_debug(name, capsys):
    assert cli.main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert [option for option in ("--json", "-q", "--debug") if option not in shown] == []


def test_quiet_silences_warnings_and_no_results():
    loud = cfagg("show", sample("temperature_printed.nca"))
    quiet = cfagg("show", sample("temperature_printed.nca"), "-q")
    assert "warning" in loud.stderr
    assert (quiet.stdout, quiet.stderr) == (loud.stdout, "")
