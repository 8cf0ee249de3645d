"""A hundred thousand datasets and real headers with changed metadata: no rule ever crashes, and none takes long."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from cfagg.checking.engine import run
from cfagg.checking.options import Options
from cfagg.formats.cdl.parsing import parse_cdl
from tests.checking.corpus import CLEAN
from tests.checking.mutations import mutate

REAL = {p.stem: p.read_text(encoding="utf-8") for p in Path(__file__).parents[1].glob("checking/real/*.cdl")}
TEXTS = {**CLEAN, **REAL}

VERSIONS = (None, None, None, "1.0", "1.6", "1.8", "1.11", "1.14-draft")

#: Parts that run beside each other, and runs of each.
PARTS, RUNS = 20, 5_500


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_no_rule_crashes_on_changed_metadata(part: int) -> None:
    keys = sorted(TEXTS)
    found = []
    for seed in range(part * RUNS, (part + 1) * RUNS):
        random = Random(seed)
        key = random.choice(keys)
        with parse_cdl(TEXTS[key]) as dataset:
            mutate(dataset, random, random.randint(1, 10))
            options = Options(data=random.random() < 0.7, cf_version=random.choice(VERSIONS))
            start = time.process_time()
            result = run(dataset, options)
            if time.process_time() - start > 5:
                found.append((seed, key, "more than 5 s"))
        found += [(seed, key, f.message) for f in result.findings if f.is_failure]
    assert found == []
