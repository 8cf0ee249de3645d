"""Settings of all tests."""

import gc
import os
import re
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal import conjecture

from cfagg.runtime import publishing
from tests.costs import affordable, measured
from tests.effort import EFFORT, examples

# How long one example takes says more about the machine, and about kernels compiled meanwhile, than about the code.
# Examples are the same each time, so that a change is judged by itself; the long runs try new ones.
settings.register_profile(
    "cfagg",
    deadline=None,
    max_examples=examples(100),
    derandomize=EFFORT <= 1,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("cfagg")

# Hypothesis reads the source of each module of the package for numbers and texts to draw, in each process of the tests:
# seconds that the long runs alone take.  Examples also stay the same where a change adds a number.
_providers = getattr(conjecture, "providers", None)  # not of all versions
if EFFORT < 1 and hasattr(_providers, "_get_local_constants"):
    _providers._get_local_constants = lambda: _providers._local_constants

# Nobody asks the machine for the keys of a cloud, and the user's own are not used.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
for _name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
    os.environ[_name] = os.devnull + "/none"


# A cluster may take minutes to start on a machine that is stalled.
for _name in ("CONNECT", "TCP"):
    os.environ[f"DASK_DISTRIBUTED__COMM__TIMEOUTS__{_name}"] = "300s"

# A run that a shell started in the background ignores Control-C, and so would all processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What is collected lives until the end: the tests and the modules they import. Going through millions of such objects
# again and again took an eighth of the processor time of the suite.
gc.disable()


def pytest_collection_finish() -> None:
    """Let the garbage collector look only at what the tests make."""
    gc.freeze()
    gc.enable()


_numbers = count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty directory for one test; to number another one, pytest's own goes through all that there are."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}_{next(_numbers)}", numbered=False)


#: Modules, beside those of tests/durability, that look at how what is written is forced to disk.
_FORCED = ("test_new_store", "test_place", "test_publishing")


@pytest.fixture(scope="module", autouse=True)
def no_waiting(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the system write to disk when it likes: each wait is for all that other processes have written too."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem not in _FORCED and "durability" not in request.path.parts:
            patch.setattr(os, "fsync", lambda _: None)
            patch.setattr(publishing, "sync_file_system", lambda _: True)
        yield


#: Whether all tests are to run, and not those of some files.
_ALL = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Let each of several processes begin to collect elsewhere, so that one loads what another has compiled."""
    worker = getattr(config, "workerinput", None)
    here = Path(__file__).parent
    config.stash[_ALL] = [Path(a).resolve() for a in config.args] == [here]
    if worker and config.stash[_ALL]:
        rooms = sorted(p for p in here.iterdir() if p.is_dir() or p.name.startswith("test_"))
        first = int(worker["workerid"][2:]) * len(rooms) // worker["workercount"]
        config.args[:] = [str(room) for room in rooms[first:] + rooms[:first]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order tests alike in all processes, and leave to the longer runs what is too much for every day.

    Those are most parameters of tests marked ``few(n)`` and, if all tests are to run, what takes longest.  Which ones
    are tried every day is drawn by the name of the test: always the same, and of no pattern that the product of several
    parameters could share.
    """
    items.sort(key=lambda item: item.path.parts)
    costs = measured() if config.stash.get(_ALL, False) else {}
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        name = item.nodeid.partition("[")[0]
        chosen = item.get_closest_marker("few") or name in costs
        if chosen and not any(item.get_closest_marker(mark) for mark in ("full", "soak")):
            found.setdefault(name, []).append(item)
    for name, alike in found.items():
        few = alike[0].get_closest_marker("few")
        number = affordable(costs.get(name, 0), min(few.args[0], len(alike)) if few else len(alike))
        daily = Random(name).sample(range(len(alike)), number)
        for item in (one for n, one in enumerate(alike) if n not in daily):
            item.add_marker("full")
