"""The command: copy the tree, and try mutants of the groups there, one after another.

The status is 1 where a mutant lives.  What became of each stands in `.mutants/GROUP-SEED.jsonl`; a run with the same
seed goes on behind it, and a larger count adds to it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutation.groups import GROUPS

ROOT = Path(__file__).parents[2]


def copied(folder: Path) -> None:
    """Copy what the tests need of the tree."""
    aside = shutil.ignore_patterns(".git", ".venv", ".mutants", ".bench", ".soak", ".*_cache", "__pycache__", "site")
    shutil.copytree(ROOT, folder, symlinks=True, dirs_exist_ok=True, ignore=aside)


def main() -> int:
    """Try mutants of the groups that the command names."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", allow_abbrev=False)
    parser.add_argument("groups", nargs="+", choices=list(GROUPS))
    parser.add_argument("--count", type=int, default=40, help="most mutants of each group")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only modules in whose path this regular expression is found")
    parser.add_argument("--tests", nargs="+", default=[], help="only these tests, of all that a group has")
    parser.add_argument("--budget", type=float, default=30, help="most seconds of tests for a mutant")
    parser.add_argument("--again", action="store_true", help="try those again that were not killed")
    parser.add_argument("--guards", action="store_true", help="only changes that take a check away")
    args = parser.parse_args()
    # Whoever ends the command ends what it has started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    status = 0
    for group in args.groups:
        log = ROOT / ".mutants" / f"{group}-{args.seed}.jsonl"
        options = [f"--count={args.count}", f"--seed={args.seed}", f"--only={args.only}", f"--budget={args.budget}"]
        options += ["--tests", *args.tests] if args.tests else []
        options += [f"--{name}" for name in ("again", "guards") if getattr(args, name)]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            copied(Path(folder))
            # The same examples each time: otherwise whether a mutant dies is left to chance.
            environment = os.environ | {"PYTHONPATH": folder, "CI": "1", "OMP_NUM_THREADS": "1"}
            if GROUPS[group].plain:
                environment["NUMBA_DISABLE_JIT"] = "1"
            command = [sys.executable, "-m", "tests.mutation.trial", group, str(log), *options]
            status |= subprocess.run(command, cwd=folder, env=environment, check=False).returncode
    return int(status != 0)


if __name__ == "__main__":
    sys.exit(main())
