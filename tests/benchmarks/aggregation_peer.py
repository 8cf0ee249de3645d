"""cf-python, which reads aggregation variables of CF-1.13, in a Python of its own.

It is installed once under ``.bench/cf``; the variable ``CFAGG_CF_PYTHON`` names another Python that has it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["IMPORT", "VERSION", "cf_python"]

HERE = Path(__file__).resolve().parents[2] / ".bench" / "cf"

#: The version that is measured.
VERSION = "3.21.0"

#: Imports it, with the UDUNITS that cf-units brings along where the system has none.
IMPORT = """
import ctypes.util, os
from glob import glob
from importlib.util import find_spec
if ctypes.util.find_library("udunits2") is None:
    home = os.path.dirname(find_spec("cf_units").origin)
    library, = glob(os.path.join(os.path.dirname(home), "cf_units.libs", "libudunits2*"))
    os.environ["UDUNITS2_XML_PATH"] = os.path.join(home, "etc", "share", "udunits2.xml")
    found = ctypes.util.find_library
    ctypes.util.find_library = lambda name: library if name == "udunits2" else found(name)
import cf
"""


def cf_python(*, install: bool) -> Path | None:
    """Return a Python that has cf-python, `None` where there is none and none is to be installed."""
    named = os.environ.get("CFAGG_CF_PYTHON")
    python = Path(named) if named else HERE / "bin" / "python"
    done = HERE / "installed"
    if named or done.exists() or not install:
        return python if python.exists() else None
    subprocess.run([sys.executable, "-m", "venv", HERE], check=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, f"cf-python=={VERSION}", "cf-units"], check=True)
    done.touch()
    return python


if __name__ == "__main__":
    print(cf_python(install=True))
