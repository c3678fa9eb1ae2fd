"""Tests of health checks and metrics."""

from __future__ import annotations

from starlette.testclient import TestClient

from http_api import (
    ask_context,
)


def test_health_checks_need_no_key_and_no_host_name(guarded_client: TestClient) -> None:
    assert [
        guarded_client.get(path, headers={"host": "10.0.0.7"}).status_code
        for path in ("/healthz", "/readyz")
    ] == [200, 200]


def test_metrics_count_requests_tokens_and_time(client: TestClient) -> None:
    ask_context(client, query="refund")
    client.request("NONSENSE", "/api/context")
    shown = client.get("/metrics").text
    assert 'knowloom_requests_total{method="POST",route="/api/context",status="200"} 1.0' in shown
    assert 'method="OTHER"' in shown and "NONSENSE" not in shown
    assert "knowloom_context_tokens_total" in shown and "knowloom_request_seconds_bucket" in shown
