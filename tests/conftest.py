"""What all tests share."""

import os

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("weft.testing")

# Tests tell nobody about themselves; both are read when the package is imported.
os.environ |= {"HAYSTACK_TELEMETRY_ENABLED": "False", "OPENAI_AGENTS_DISABLE_TRACING": "true"}

# Machines are shared: that one was slow for a moment says nothing of the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")
