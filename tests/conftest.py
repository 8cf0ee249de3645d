"""Settings of all tests."""

from hypothesis import HealthCheck, settings

# How long one example takes says more about the machine, and about kernels compiled meanwhile, than about the code.
settings.register_profile("cfagg", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cfagg")
