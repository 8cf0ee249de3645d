"""The commands on a page, run as they stand: their pictures are the page's pictures."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path


def commands(page: str) -> list[list[str]]:
    """Return the arguments of every ``$ cfagg ...`` of a page.

    >>> commands("```console\\n$ cfagg mean sst.zarr sst --over time\\n  280 K\\n```")
    [['mean', 'sst.zarr', 'sst', '--over', 'time']]
    """
    return [shlex.split(line) for line in re.findall(r"^\$ cfagg (.+)$", page, flags=re.MULTILINE)]


def files(page: str) -> dict[str, str]:
    """Return the files that a page shows whole, by name: its code blocks with a title.

    >>> files('```yaml title="a.yaml"\\nname: a\\n```')
    {'a.yaml': 'name: a\\n'}
    """
    return dict(re.findall(r'^```\w+ title="([\w.-]+)"\n(.*?)^```', page, flags=re.MULTILINE | re.DOTALL))


def pictures(page: str) -> dict[str, bytes]:
    """Run the commands of a page beside copies of the samples; return the pictures that they draw, by name.

    The files that the page shows are there too.

    Raises
    ------
    RuntimeError
        A command failed.
    """
    from cfagg.cli.main import main
    from cfagg.demo import sample

    with tempfile.TemporaryDirectory() as folder:
        beside = Path(folder, "samples")
        shutil.copytree(sample(), beside)
        for name, text in files(page).items():
            (beside / name).write_text(text, encoding="utf-8")
        there = set(beside.rglob("*"))
        old = Path.cwd()
        os.chdir(beside)
        try:
            for arguments in commands(page):
                said = io.StringIO()
                with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                    status = main(arguments)
                if status:
                    raise RuntimeError(f"cfagg {shlex.join(arguments)} ended with {status}: {said.getvalue()}")
        finally:
            os.chdir(old)
        drawn = (p for p in beside.iterdir() if p not in there and p.suffix in (".png", ".svg"))
        return {p.name: p.read_bytes() for p in sorted(drawn)}
