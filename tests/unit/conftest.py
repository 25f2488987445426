"""Settings of the unit tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# On a busy machine, examples may take long to generate and to check.
settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")
