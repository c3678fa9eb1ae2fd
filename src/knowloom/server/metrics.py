"""What the service counts about itself."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from knowloom.server.settings import METRICS_FOLDER


class Metrics:
    """Prometheus counters. Where several processes serve together, they are added up in a folder that its environment names."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "knowloom_requests_total",
            "Requests by route and status",
            ["route", "method", "status"],
            registry=self.registry,
        )
        buckets = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
        self.latency = Histogram(
            "knowloom_request_seconds",
            "Time to answer",
            ["route"],
            buckets=buckets,
            registry=self.registry,
        )
        self.tokens = Counter(
            "knowloom_context_tokens_total",
            "Tokens of the contexts returned",
            registry=self.registry,
        )
        self.degraded = Counter(
            "knowloom_degraded_total",
            "Answers that were weaker than asked, by reason",
            ["code"],
            registry=self.registry,
        )

    def text(self) -> bytes:
        """Of all processes that serve together, as Prometheus reads it."""
        if METRICS_FOLDER not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
