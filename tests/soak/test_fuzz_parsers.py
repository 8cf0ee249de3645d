"""Every parser on tens of thousands of changed inputs: nothing but our errors, no crash, hang or great memory."""

from __future__ import annotations

import pytest

from tests.fuzzing.running import Process
from tests.fuzzing.target import table

#: Inputs for each parser, in parts that can run beside each other.
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


@pytest.mark.soak
def test_all_parsers_together_get_a_million_inputs() -> None:
    assert sum(int(COUNT * one.share) * PARTS for one in table().values() if not one.pending) >= 1_000_000
