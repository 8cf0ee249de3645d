"""Children that are forked while threads of their parent hold locks."""

from __future__ import annotations

import os
import threading
import warnings

import pytest

from cfagg.cf import udunits
from cfagg.formats.classic import variables
from cfagg.formats.hdf5 import head, headers
from cfagg.formats.values import find
from cfagg.formats.zarr import fallback, settings
from cfagg.runtime import progress
from cfagg.storage import counters
from cfagg.storage.locks import forkable

LOCKS = {
    "a new one": forkable(),
    "counters": counters._lock,
    "headers of HDF5": headers._memory.lock,
    "questions about HDF5": head._lock,
    "headers of classic netCDF": variables._lock,
    "variables that were found": find._lock,
    "units": udunits._LOCK,
    "Zarr": fallback._opening,
    "settings of Zarr": settings._setting.lock,
    "who hears of progress": progress._lock,
}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", LOCKS)
def test_a_forked_child_can_take_a_lock_that_a_thread_of_its_parent_held(name: str) -> None:
    lock, held, done = LOCKS[name], threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(600)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads
        child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(timeout=60) else 1)
    status = os.waitpid(child, 0)[1]
    done.set()
    thread.join()
    assert status == 0
