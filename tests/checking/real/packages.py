"""Packages of real files, put into ``.bench/real`` once, without what they depend on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["PACKAGES", "files", "install"]

HERE = Path(__file__).resolve().parents[3] / ".bench" / "real"

#: Package as imported -> what is installed.
PACKAGES = {
    "esmvaltool_sample_data": "ESMValTool_sample_data==0.0.4",
    "iris_sample_data": "iris-sample-data==2.5.2",
}


def install() -> None:
    """Install those that are not there."""
    missing = [wanted for name, wanted in PACKAGES.items() if not (HERE / name).is_dir()]
    if missing:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--target", str(HERE), *missing], check=True)


def files(package: str) -> list[Path]:
    """Return the netCDF files of a package."""
    return sorted((HERE / package).rglob("*.nc"))


if __name__ == "__main__":
    install()
