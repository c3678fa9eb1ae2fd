"""GET /api/health: sizes, pending work, requests, latencies and limits, for admins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from knowloom.linking.ports import LinkStore
from knowloom.ports import Stores
from knowloom.server.dependencies import get_engine, get_key, get_metrics
from knowloom.server.settings import ServerLimits
from knowloom.wire import JsonObject

router = APIRouter(prefix="/api", tags=["operations"])

QUANTILES = (0.5, 0.95)


@router.get("/health")
def health(request: Request) -> JSONResponse:
    """Return sizes, pending work, requests by route and limits. Requires the role admin."""
    key = get_key(request)
    key.check_role("admin")
    with get_engine(request).reader.snapshot() as stores:
        spaces = get_engine(request).reader.spaces()
        visible = set(key.visible([space.name for space in spaces]))
        rows = [
            {
                "name": space.name,
                "items": space.items,
                "edges": space.edges,
                "links": space.links,
                "without_vector": stores.vectors.count_missing([space.name]),
                "outdated_links": _count_outdated(stores, space.name),
            }
            for space in spaces
            if space.name in visible
        ]
        embedder = stores.vectors.fingerprint()
    limits: ServerLimits = request.app.state.limits
    return JSONResponse(
        {
            "spaces": rows,
            "embedder": embedder,
            "limits": {
                "requests_per_minute": limits.requests_per_minute,
                "max_body": limits.max_body,
            },
            **summarise_metrics(get_metrics(request).render().decode()),
        }
    )


def _count_outdated(stores: Stores, space: str) -> int:
    """Return the number of items whose automatic edges must be computed again."""
    store = stores.items
    return len(store.dirty_ids(space)) if isinstance(store, LinkStore) else 0


def summarise_metrics(text: str) -> JsonObject:
    """Return the counters of the Prometheus metrics by route, and quantiles of the latencies."""
    samples: dict[str, list[Sample]] = defaultdict(list)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples[sample.name].append(sample)
    statuses: dict[str, dict[str, int]] = defaultdict(dict)
    for sample in samples["knowloom_requests_total"]:
        counts, status = statuses[sample.labels["route"]], sample.labels["status"]
        counts[status] = counts.get(status, 0) + int(sample.value)
    latencies = _quantiles_by_route(samples["knowloom_request_seconds_bucket"])
    requests: list[JsonObject] = [
        {"route": route, "statuses": counts, **latencies.get(route, {})}
        for route, counts in sorted(statuses.items())
    ]
    degraded = {
        sample.labels["code"]: int(sample.value) for sample in samples["knowloom_degraded_total"]
    }
    tokens = sum(int(sample.value) for sample in samples["knowloom_context_tokens_total"])
    return {"requests": requests, "degraded": degraded, "context_tokens": tokens}


def _quantiles_by_route(samples: Iterable[Sample]) -> dict[str, JsonObject]:
    buckets: dict[str, dict[float, float]] = defaultdict(dict)
    for sample in samples:
        buckets[sample.labels["route"]][float(sample.labels["le"])] = sample.value
    return {
        route: {f"p{quantile * 100:g}_ms": _quantile(counts, quantile) for quantile in QUANTILES}
        for route, counts in buckets.items()
    }


def _quantile(counts: Mapping[float, float], quantile: float) -> float | None:
    """Return the upper bound, in milliseconds, of the bucket of a quantile; None above all."""
    bounds = sorted(counts)
    total = counts[bounds[-1]]
    bound = next((bound for bound in bounds if counts[bound] >= quantile * total), bounds[-1])
    return None if bound == float("inf") else bound * 1000
