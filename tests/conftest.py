"""Settings of all tests."""

import os

from hypothesis import HealthCheck, settings

from tests.effort import examples

# How long one example takes says more about the machine, and about kernels compiled meanwhile, than about the code.
# Where CI runs, examples are the same each time, so that a change is judged by itself; elsewhere new ones are tried.
settings.register_profile(
    "cfagg",
    deadline=None,
    max_examples=examples(100),
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("cfagg")
