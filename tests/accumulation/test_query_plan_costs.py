"""Plans are chosen by what reading really takes."""

import itertools
import pathlib
import threading
import time

import numpy as np
import pytest
import zarr

from cfagg.accumulation import query_plan as module
from cfagg.accumulation.adding import in_order
from cfagg.accumulation.contract import locate
from cfagg.accumulation.query_plan import extent, reading_cost
from cfagg.accumulation.ranges import Runs, fold
from cfagg.formats.zarr import open_array, read_box
from tests.accumulation.comparing import threads as with_threads

SHAPE, CHUNKS = (32, 40, 50), (16, 40, 25)


def read_so_far() -> tuple[int, int]:
    """Return the bytes that this process has read, and the number of its reads."""
    lines = pathlib.Path("/proc/self/io").read_text().split()
    return int(lines[1]), int(lines[5])


@pytest.mark.skipif(not pathlib.Path("/proc/self/io").exists(), reason="the system does not count what is read")
@pytest.mark.parametrize(
    "box", [(0, 32, 0, 40, 0, 50), (0, 32, 5, 25, 24, 26), (3, 5, 0, 40, 1, 2), (7, 8, 3, 4, 0, 50), (0, 3, 0, 2, 0, 1)]
)
def test_the_cost_of_a_box_follows_the_bytes_and_reads_that_it_takes(tmp_path, box):
    zarr.create_array(tmp_path, name="x", shape=SHAPE, chunks=CHUNKS, dtype="f8", compressors=None)[:] = 1.0
    array = open_array(str(tmp_path), "x")
    parts = [fold(Runs([a], [b], [0])) for a, b in itertools.batched(box, 2)]
    located = [locate(p, axis, n) for p, axis, n in zip(parts, array.grid.axes, SHAPE, strict=True)]
    empty = read_so_far()
    before = read_so_far()
    for place in itertools.product(*located):
        read_box(array, tuple(p.chunk for p in place), tuple(slice(p.low, p.high) for p in place))
    after = read_so_far()
    nbytes, reads = (c - b - (b - a) for a, b, c in zip(empty, before, after, strict=True))
    found = reading_cost(array, [extent(p, axis, n) for p, axis, n in zip(parts, array.grid.axes, SHAPE, strict=True)])
    chunks = np.prod([len(each) for each in located])
    expected = chunks * module._CHUNK + reads * module._READ + nbytes * module._PLAIN
    assert found == pytest.approx(expected, rel=0.01)


def test_results_of_threads_come_in_the_order_of_jobs_that_are_few_ahead():
    taken, threads = 0, set()

    def jobs():
        nonlocal taken
        while taken < 400:
            yield taken
            taken += 1

    def work(job):
        threads.add(threading.get_ident())
        time.sleep(0.004 if job % 50 == 3 else 0.0)
        return job

    ahead = []
    with with_threads(2):
        for count, found in enumerate(in_order(work, jobs(), 0.0)):
            assert found == count
            ahead.append(taken - count)
    assert len(ahead) == 400
    assert max(ahead) < 6 * 16
    assert threading.get_ident() not in threads


def test_an_error_of_a_job_reaches_who_asked_after_the_results_before_it():
    seen = []
    with with_threads(2), pytest.raises(ZeroDivisionError):
        seen.extend(in_order(lambda job: 1 // (100 - job), iter(range(200)), 0.0))
    assert set(seen) <= {0, 1}
