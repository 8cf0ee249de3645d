"""Control-C, as the signal that a terminal sends, and SIGTERM: every job ends with 130 or 143 and says so in a line."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

#: Verb -> the module that its work begins with, and its arguments.
JOBS = {
    "show": ("cfagg.display.summary", ["show", "{nca}", "--rows", "all"]),
    "convert": ("cfagg.conversion.converting", ["convert", "{nca}", "{out}"]),
    "check": ("cfagg.checking.parallel", ["check", "--data", *["{nca}"] * 20]),
    "explain": ("cfagg.findings.rule", ["explain"]),
    "accumulate": ("cfagg.accumulation.accumulating", ["accumulate", "{zarr}", "surface_temperature", "--overwrite"]),
    "mean": ("cfagg.accumulation.accumulated", ["mean", "{zarr}", "surface_temperature", "--over", "time"]),
    "obs create": ("cfagg.observations.creating", ["obs", "create", "{recipe}", "{out}"]),
    "obs show": ("cfagg.observations.store", ["obs", "show", "{storms}"]),
    "obs window": ("cfagg.observations.opening", ["obs", "window", "{storms}", "2004-09-01"]),
    "obs check": ("cfagg.observations.store", ["obs", "check", "{storms}", "--full"]),
    "obs index": ("cfagg.observations.indexes", ["obs", "index", "{storms}", "--from", "data"]),
}


def interrupted(arguments: list[str], module: str, stop: signal.Signals) -> tuple[int, str]:
    """Run the command, send it a signal once a module is imported; return the status and what it said."""
    command = [sys.executable, "-X", "importtime", "-m", "cfagg", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.split("|")[-1].strip() == module:
                process.send_signal(stop)
                break
        else:
            pytest.fail(f"{module} is not imported")
        said = [line for line in process.stderr if not line.startswith("import time:")]
        return process.wait(timeout=600), "".join(said)


@pytest.mark.few(2)
@pytest.mark.parametrize(("stop", "expected"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("verb", JOBS)
def test_a_signal_in_a_job_ends_it_with_a_status_and_a_line(
    verb: str, stop: signal.Signals, expected: int, places: dict[str, Path]
) -> None:
    module, arguments = JOBS[verb]
    filled = [a.format(**places) for a in arguments]
    for _ in range(5):  # the signal may come when the job is just done, and a target may be left to resume
        status, said = interrupted(filled, module, stop)
        if status not in (0, -stop):
            break
        if "{out}" in arguments:
            filled = [*filled, "--overwrite"]
    assert (status, "Traceback" in said) == (expected, False), said
    assert "interrupted" in said or "terminated" in said or "kept" in said
    assert len(said.splitlines()) == 1


#: A program whose work is interrupted within Python code that a compiled module runs.
_WITHIN = """
import ctypes, runpy
from cfagg.cli import main as command

def main():
    run = ctypes.pythonapi.PyRun_String
    run.restype, run.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.c_int, ctypes.py_object, ctypes.py_object]
    try:
        run(b"raise KeyboardInterrupt", 257, {}, {})
    except KeyboardInterrupt:
        return 143

command.main = main
runpy.run_module("cfagg", run_name="__main__")
"""


def test_the_status_is_the_same_if_a_compiled_module_was_running_python(tmp_path: Path) -> None:
    (tmp_path / "within.py").write_text(_WITHIN)
    command = [sys.executable, "-m", "within"]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 143
