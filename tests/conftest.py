"""What all tests share."""

import os

import pytest

pytest.register_assert_rewrite("weft.testing")

# Tests tell nobody about themselves; both are read when the package is imported.
os.environ |= {"HAYSTACK_TELEMETRY_ENABLED": "False", "OPENAI_AGENTS_DISABLE_TRACING": "true"}
