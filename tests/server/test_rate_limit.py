"""Tests of the rate limiter."""

from __future__ import annotations

from multiprocessing import get_context

import pytest

from knowloom.server.limits.rate_limit import RateLimiter


def test_the_bucket_refills_with_time() -> None:
    now = [0.0]
    rate = RateLimiter(60, lambda: now[0])
    assert [rate.wait_s("k") for _ in range(60)] == [0.0] * 60
    assert rate.wait_s("k") == pytest.approx(1.0)
    now[0] = 1.0
    assert rate.wait_s("k") == 0.0


def test_a_lock_whose_holder_was_killed_stops_nobody() -> None:
    limiter = RateLimiter.shared(60, get_context("spawn"))
    limiter._lock.acquire(timeout=1)  # as a process that is killed before it releases it
    assert [limiter.wait_s("key") for _ in range(3)] == [0.0, 0.0, 0.0]
