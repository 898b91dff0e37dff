"""For every test: Hypothesis waits as long as a busy machine needs, and no warning counts as logged before."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from umi_common.runtime import losses

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def no_warning_logged_yet():
    """As in a new process, which logs each warning once and at most 100."""
    losses._logged.clear()
