"""Accessors of the application's state for routes: engine, key, tier, metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from fastapi import Request

from knowloom import tiers
from knowloom.engine import Engine, act_as, restrict
from knowloom.errors import DeadlineExceeded, Forbidden
from knowloom.model import Edge, Problem
from knowloom.secrets.policy import AUTO, REDACT
from knowloom.server.keys.api_keys import ALL_SPACES, ApiKey
from knowloom.server.metrics import Metrics
from knowloom.tiers import Tier
from knowloom.tracing import remaining_s
from knowloom.validation import choose_space


def get_engine(request: Request) -> Engine:
    """Return the engine that acts as the key, and sees only the items of its filter, if any."""
    key = get_key(request)
    engine = act_as(request.app.state.engine, key.actor)
    return restrict(engine, key.where) if key.where else engine


def secrets_policy(request: Request, policy: str | None, is_document: bool = False) -> str | None:
    """Return the policy about secrets of a write; Invalid if the setting forbids it."""
    secrets = get_engine(request)._secrets  # the engine has no more public members
    secrets.validate_policy(policy)
    if policy is None and is_document and secrets.setting == AUTO:
        return REDACT
    return policy


def get_metrics(request: Request) -> Metrics:
    metrics: Metrics = request.app.state.metrics
    return metrics


def get_key(request: Request) -> ApiKey:
    """Return the key that the middleware accepted."""
    key: ApiKey = request.state.key
    return key


def refuse_filter(request: Request, action: str) -> None:
    """Raise Forbidden for a key with a filter, if an answer cannot be restricted to its items."""
    if get_key(request).where:
        raise Forbidden(f"a key with a filter may not {action}")


def read_spaces(request: Request, spaces: Sequence[str] | None) -> list[str]:
    """Return the spaces of a request, which the key may read; by default its only space."""
    key = get_key(request)
    if spaces is None:
        spaces = [_choose_space(request, key.visible, {*key.reads, *key.writes})]
    key.check_read(spaces)
    return list(spaces)


def write_space(request: Request, space: str | None, names: Sequence[str] = ()) -> str:
    """Return the space of a request, which the key may write; by default its only space.

    `names` are spaces that the request writes, too, whether or not they are stored.
    """
    key = get_key(request)
    key.check_role("editor")
    if space is None:
        space = _choose_space(request, key.writable, set(key.writes), names)
    key.check_write(space)
    return space


def _choose_space(
    request: Request,
    select: Callable[[Sequence[str]], list[str]],
    granted: set[str],
    names: Sequence[str] = (),
) -> str:
    """Return the only stored space that the key may use; before it is stored, the only granted."""
    stored = select(sorted({*get_engine(request).reader.filled_spaces(), *names}))
    return choose_space(stored or sorted(granted - {ALL_SPACES}))


def get_tier(request: Request, tier: str | None = None) -> Tier:
    """Return the tier of the key, or the lower `tier` of the request."""
    return tiers.lower_tier(tiers.tier_of_key(get_key(request).tier), tier)


def check_vector_size(request: Request) -> None:
    """Check that a key may pass vectors: the first ones set the size of those of all spaces."""
    engine = get_engine(request)
    if engine.reader.dimensions is None and not engine.maintenance.stats().embedder:
        get_key(request).check_all("write")


def visible_edges(
    request: Request,
    spaces: Sequence[str],
    limit: int,
    after: Edge | None,
    automatic: bool | None = False,
) -> list[Edge]:
    """Return the next edges of the spaces, without those that lead to spaces the key cannot read.

    Their ids would reveal items of other tenants.
    """
    key, engine = get_key(request), get_engine(request)
    edges: list[Edge] = []
    while len(edges) < limit:
        page = list(engine.edges(spaces, limit=limit, after=after, automatic=automatic))
        edges += [edge for edge in page if key.visible([edge.target_key[0]])]
        if len(page) < limit:
            break
        after = page[-1]
    return edges[:limit]


@contextmanager
def cpu_turn(request: Request) -> Iterator[None]:
    """Run CPU-bound queries one at a time.

    Under the GIL two of them switch every few milliseconds, and both take as long as both
    together. Writes and queries that wait for the network do not take the lock.
    """
    if not get_engine(request).reader.is_cpu_bound:
        yield
        return
    lock, wait_s = request.app.state.cpu_lock, remaining_s()
    if not lock.acquire(timeout=-1 if wait_s is None else wait_s):
        raise DeadlineExceeded("other requests take too long: try again later")
    try:
        yield
    finally:
        lock.release()


def record_context(request: Request, tokens: int, problems: Iterable[Problem]) -> None:
    """Count the tokens of a response and the problems that degraded it."""
    metrics = get_metrics(request)
    metrics.tokens.inc(tokens)
    record_problems(request, problems)


def record_problems(request: Request, problems: Iterable[Problem]) -> None:
    metrics = get_metrics(request)
    for problem in problems:
        metrics.degraded.labels(problem.code).inc()
