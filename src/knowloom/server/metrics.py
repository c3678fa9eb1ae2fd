"""Prometheus metrics of the server."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from knowloom.server.settings import METRICS_FOLDER

LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """Counters of requests, latencies, tokens and degraded responses.

    Several server processes add up their counts in the folder that METRICS_FOLDER names.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "knowloom_requests_total",
            "Requests by route and status",
            ["route", "method", "status"],
            registry=self.registry,
        )
        self.latency = Histogram(
            "knowloom_request_seconds",
            "Response time",
            ["route"],
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.tokens = Counter(
            "knowloom_context_tokens_total",
            "Tokens of the contexts returned",
            registry=self.registry,
        )
        self.degraded = Counter(
            "knowloom_degraded_total",
            "Degraded responses by reason",
            ["code"],
            registry=self.registry,
        )

    def render(self) -> bytes:
        """Return the metrics of all server processes in the Prometheus text format."""
        if METRICS_FOLDER not in os.environ:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
