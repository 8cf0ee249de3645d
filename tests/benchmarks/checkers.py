"""The two other checkers of CF compliance, compliance-checker and cfchecker, as processes of their own."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tests.benchmarks.peers import UDUNITS

__all__ = ["CFCHECKS", "CLI", "commands", "tables"]

#: Our command, as the installed one runs.
CLI = (sys.executable, "-c", "import sys; from cfagg.cli.main import main; sys.exit(main())", "check")

#: The published table of standard names in compliance-checker.
_NAMES = "compliance_checker/data/cf-standard-name-table.xml"

#: cfchecker, which needs UDUNITS.
CFCHECKS = f"""
{UDUNITS}
from cfchecker.cfchecks import main
sys.exit(main())
"""


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
