"""Compare verdicts: ours and those of the two other checkers on the clean datasets and on those with one defect.

Run ``python -m tests.benchmarks.compare_checkers``; the numbers are those of ``docs/checking_peers.md``.  Only defects
of rules that CF-1.8 has are counted, which both others claim to check.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cfagg.checking.registry import registered
from cfagg.findings.versions import Version
from cfagg.formats.cdl.parsing import parse_cdl
from tests.benchmarks.checkers import CFCHECKS, CLI, tables
from tests.benchmarks.peers import peer_python
from tests.checking.corpus import CLEAN
from tests.checking.test_corpus import DEFECTS
from tests.checking.writing import write_netcdf

#: A verdict: whether the checker crashed, and what it calls an error.
Verdict = tuple[bool, list[str]]


def ours(path: Path) -> Verdict:
    """Return our verdict."""
    told = subprocess.run([*CLI, "--data", "--format", "json", str(path)], capture_output=True, text=True, check=False)
    if told.returncode > 1:
        return True, [told.stderr]
    found = json.loads(told.stdout)[0]["findings"]
    return any(f["code"] == "INT001" for f in found), [
        f"{f['severity']} {f['code']} {f['variable']}: {f['message']}" for f in found
    ]


def cfchecker(path: Path, python: Path, options: list[str]) -> Verdict:
    """Return the verdict of cfchecker against CF-1.8, the newest that it knows."""
    told = subprocess.run(
        [str(python), "-c", CFCHECKS, *options, "-v", "1.8", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "Traceback" in told.stderr:
        return True, [told.stderr.strip().splitlines()[-1]]
    lines = [x for x in told.stdout.splitlines() if re.match(r"(ERROR|WARN|FATAL|INFO):", x)]
    # That it does not know the version which the datasets claim is not a verdict on the defect.
    return False, [x for x in lines if "(2.6.1)" not in x and "CF version" not in x]


def compliance_checker(path: Path, python: Path) -> Verdict:
    """Return the verdict of compliance-checker against CF-1.11, the newest that it knows."""
    command = [str(python.with_name("compliance-checker")), "-t", "cf:1.11", "-f", "json", "-o", "-", str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    start, end = told.stdout.find("{"), told.stdout.rfind("}")
    if start < 0:
        return True, [(told.stderr.strip().splitlines() or ["nothing was printed"])[-1]]
    found = json.loads(told.stdout[start : end + 1])
    found = found.get("cf:1.11", found)
    messages = [
        f"{'error' if level == 'high' else 'warning'} {entry['name']}: {message}"
        for level in ("high", "medium", "low")
        for entry in found.get(f"{level}_priorities", [])
        for message in entry["msgs"]
        if "Conventions" not in message
    ]
    return "exceptions occurred" in told.stdout[:start] + told.stderr, messages


def main() -> None:
    """Print what each finds and what it tells of clean datasets."""
    python = peer_python("checkers", install=True)
    assert python is not None
    known = {code for code, rule in registered().items() if rule.since <= Version(1, 8)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = tables(python, folder)
        checkers: dict[str, Callable[[Path], Verdict]] = {
            "cfagg": ours,
            "compliance-checker": lambda path: compliance_checker(path, python),
            "cfchecker": lambda path: cfchecker(path, python, options),
        }
        clean = {key: _written(text, folder / f"clean_{n}.nc") for n, (key, text) in enumerate(CLEAN.items())}
        bad = {
            d.name: (_written(d.text(), folder / f"bad_{n}.nc"), clean[d.base])
            for n, d in enumerate(DEFECTS)
            # What the others say of Conventions is about versions that they do not know, and is left out.
            if d.code in known - {"DOC010", "DOC011"} and d.version is None
        }
        for checker, verdict in checkers.items():
            _tell(checker, verdict, clean, bad)


def _written(text: str, path: Path) -> Path | None:
    try:
        with parse_cdl(text) as dataset:
            return write_netcdf(dataset, path)
    except (AttributeError, ValueError, TypeError):
        return None  # the library refuses to write this defect


def _tell(
    checker: str,
    verdict: Callable[[Path], Verdict],
    clean: dict[str, Path | None],
    bad: dict[str, tuple[Path | None, Path | None]],
) -> None:
    paths = {p for p in clean.values() if p} | {p for p, _ in bad.values() if p}
    with ThreadPoolExecutor(2) as pool:
        seen = dict(zip(sorted(paths), pool.map(verdict, sorted(paths)), strict=True))
    wrong = {
        k: [m for m in seen[p][1] if not m.startswith(("warning", "info", "WARN", "INFO"))]
        for k, p in clean.items()
        if p
    }
    wrong = {k: m for k, m in wrong.items() if m}
    missed = [n for n, (p, base) in bad.items() if p and base and not set(seen[p][1]) - set(seen[base][1])]
    crashed = [n for n, (p, _) in bad.items() if p and seen[p][0]]
    crashed += [k for k, p in clean.items() if p and seen[p][0]]
    count = sum(1 for p, _ in bad.values() if p)
    print(f"{checker}: {count - len(missed)} of {count} defects change its verdict, {len(wrong)} of {len(clean)} clean")
    print(f"  datasets have errors, it crashes on {len(crashed)}")
    for title, names in (("missed", missed), ("crashed", crashed)):
        for n in names:
            print(f"    {title}: {n[:140]}")
    for key, messages in wrong.items():
        print(f"    clean {key}: {messages[0][:180]}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
