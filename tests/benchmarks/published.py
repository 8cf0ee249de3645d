"""The published software, anemoi-datasets, in a Python of its own: it needs version 2 of zarr-python.

It is installed once under ``.bench/anemoi``; the variable ``CFAGG_PEER_PYTHON`` names another Python that has it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["published_python"]

HERE = Path(__file__).resolve().parents[2] / ".bench" / "anemoi"

#: The version that is measured.
VERSION = "0.5.47"


def published_python(*, install: bool) -> Path | None:
    """Return a Python that has anemoi-datasets, `None` where there is none.

    Parameters
    ----------
    install : bool
        Whether to make it, which takes a minute.
    """
    named = os.environ.get("CFAGG_PEER_PYTHON")
    python = Path(named) if named else HERE / "bin" / "python"
    done = HERE / "installed"
    if named or done.exists() or not install:
        return python if python.exists() else None
    subprocess.run([sys.executable, "-m", "venv", HERE], check=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, f"anemoi-datasets=={VERSION}"], check=True)
    done.touch()
    return python


if __name__ == "__main__":
    print(published_python(install=True))
