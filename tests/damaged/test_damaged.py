"""Damaged inputs that once did harm: every reader of their kind reads or refuses them.

`files` holds whole files, which go to every way in; a folder named like a parser of `tests.fuzzing` holds its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzzing.running import Process
from tests.fuzzing.target import table

HERE = Path(__file__).parent
WAYS = [name for name, one in table().items() if one.file and not one.pending and name.endswith(" HDF5")]
OTHERS = sorted(p.name for p in HERE.iterdir() if p.is_dir() and p.name in table())

#: Those whose inputs take seconds.
LONG = {"convert HDF5"}


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    with Process() as started:
        yield started


@pytest.mark.few(3)
@pytest.mark.parametrize("way", WAYS)
def test_every_reader_of_files_survives_each_damaged_file(process: Process, way: str) -> None:
    paths = sorted((HERE / "files").iterdir())
    assert paths
    assert [str(f) for f in process.replay(way, paths)] == []


@pytest.mark.few(4)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.full) if n in LONG else n for n in OTHERS])
def test_a_parser_survives_each_of_its_damaged_inputs(process: Process, name: str) -> None:
    assert [str(f) for f in process.replay(name, sorted((HERE / name).iterdir()))] == []


def test_every_folder_is_run() -> None:
    folders = {p.name for p in HERE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders == {*OTHERS, "files"}


def test_the_corpus_stays_small() -> None:
    assert sum(p.stat().st_size for p in HERE.rglob("*") if p.is_file() and p.suffix != ".pyc") < 1_000_000
