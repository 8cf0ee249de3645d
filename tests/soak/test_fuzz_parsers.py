"""Every parser on tens of thousands of changed inputs: nothing but our errors, no crash, hang or great memory."""

from __future__ import annotations

import pytest

from tests.fuzzing.running import Process
from tests.fuzzing.target import table

#: Inputs for each parser, in parts that can run beside each other: about an hour of processor time for all.
PARTS, COUNT = 5, 10_000

#: Another number gives other inputs.
SEED = 1


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", [name for name, one in table().items() if not one.pending and not one.trial])
def test_nothing_but_our_errors_comes_out_of(name: str, part: int) -> None:
    count = int(COUNT * table()[name].share)
    with Process() as process:
        assert [str(f) for f in process.fuzz(name, count, SEED, part * count)] == []


#: Ways in that get fewer inputs, and what runs the same parsers with all of them.
SAME = {
    "check --data classic": "values classic",
    "read classic": "locate classic",
    "convert classic": "locate classic",
    "check --data HDF5": "values HDF5",
    "read HDF5": "locate HDF5",
    "convert HDF5": "locate HDF5",
    "every byte of HDF5": "check HDF5",
    "every byte of HDF5 with its checksums": "check HDF5",
    "check --data CDL": "CDL",
    "check --data Zarr": "check Zarr",
    "read Zarr": "Zarr arrays",
    "PP as datasets": "PP",
}


def test_every_parser_gets_fifty_thousand_inputs_by_one_way_in_at_least() -> None:
    known = {name: one for name, one in table().items() if not one.trial}
    assert not [name for name, one in known.items() if one.pending]
    assert {name for name, one in known.items() if one.share < 1} == set(SAME)
    assert all(COUNT * PARTS * one.share >= 50_000 for name, one in known.items() if name not in SAME)
    assert all(known[same].share >= 1 for same in SAME.values())


def test_all_parsers_together_get_a_million_inputs() -> None:
    assert sum(int(COUNT * one.share) * PARTS for one in table().values() if not one.pending) >= 1_000_000
