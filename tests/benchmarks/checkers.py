"""The two other checkers of CF compliance, compliance-checker and cfchecker, in a Python of their own.

They are installed once under ``.bench/checkers``; the variable ``CFAGG_CHECKERS_PYTHON`` names another Python that has
them.  They run as processes of their own, and nothing of them is imported here.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from xml.sax.saxutils import quoteattr

__all__ = ["CFCHECKS", "CLI", "checkers_python", "commands", "tables"]

HERE = Path(__file__).resolve().parents[2] / ".bench" / "checkers"

#: What is installed: cfchecker needs UDUNITS, whose library comes with cf-units.
PACKAGES = ("compliance-checker==6.1.0", "cfchecker==4.1.0", "cf-units")

#: Our command, as the installed one runs.
CLI = (sys.executable, "-c", "import sys; from cfagg.cli.main import main; sys.exit(main())", "check")

#: The published table of standard names in compliance-checker.
_NAMES = "compliance_checker/data/cf-standard-name-table.xml"

#: cfchecker with the UDUNITS that cf-units brings along where the system has none.
CFCHECKS = """
import ctypes.util, os, sys
from glob import glob
from importlib.util import find_spec
if ctypes.util.find_library("udunits2") is None:
    home = os.path.dirname(find_spec("cf_units").origin)
    library, = glob(os.path.join(os.path.dirname(home), "cf_units.libs", "libudunits2*"))
    os.environ["UDUNITS2_XML_PATH"] = os.path.join(home, "etc", "share", "udunits2.xml")
    found = ctypes.util.find_library
    ctypes.util.find_library = lambda name: library if name == "udunits2" else found(name)
from cfchecker.cfchecks import main
sys.exit(main())
"""


def checkers_python(*, install: bool) -> Path | None:
    """Return a Python that has both checkers, `None` where there is none.

    Parameters
    ----------
    install : bool
        Whether to make it, which takes a minute.
    """
    named = os.environ.get("CFAGG_CHECKERS_PYTHON")
    python = Path(named) if named else HERE / "bin" / "python"
    if named or (HERE / "bin" / "compliance-checker").exists() or not install:
        return python if python.exists() else None
    subprocess.run([sys.executable, "-m", "venv", HERE], check=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, *PACKAGES], check=True)
    return python


def commands(python: Path, folder: Path, files: Sequence[Path]) -> dict[str, list[str]]:
    """Return the commands that check these files, by the name of the checker; ours is ``"cfagg"``.

    Parameters
    ----------
    python : Path
        A Python that has the checkers.
    folder : Path
        Where short tables that cfchecker reads are written: without them it asks the network.
    files : sequence of Path
        What to check.
    """
    names = [str(f) for f in files]
    options = [*tables(python, folder), "-v", "auto"]
    return {
        "cfagg": [*CLI, *names],
        "compliance-checker": [str(python.with_name("compliance-checker")), "-t", "cf:1.11", *names],
        "cfchecker": [str(python), "-c", CFCHECKS, *options, *names],
    }


def tables(python: Path, folder: Path) -> list[str]:
    """Return the options of cfchecker that name its tables.

    Of standard names it is the published one, which compliance-checker brings along: what it costs to read belongs to
    cfchecker's time.  The two short ones are written from ours.
    """
    found = {"standard": next(python.parents[1].glob(f"lib/python*/site-packages/{_NAMES}"))}
    packed = resources.files("cfagg.checking").joinpath("tables")
    for kind, start in (("area", "area_types"), ("region", "regions")):
        source = next(t for t in packed.iterdir() if t.name.startswith(start))
        names = gzip.decompress(source.read_bytes()).decode().split()[1:]
        entries = "".join(f"<entry id={quoteattr(name)}/>\n" for name in names)
        found[kind] = folder / f"{kind}.xml"
        found[kind].write_text(
            f"<table><version_number>0</version_number><date>today</date>\n{entries}</table>\n", encoding="utf-8"
        )
    return ["-s", str(found["standard"]), "-a", str(found["area"]), "-r", str(found["region"])]


if __name__ == "__main__":
    print(checkers_python(install=True))
