"""Keys with a filter: items outside it are as if they were not stored, on every route."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import knowloom
from http_api import NOW, bearer, serve_app
from knowloom import Edge, Item
from knowloom.errors import Corrupt, Invalid, NotFound
from knowloom.model import ItemCondition
from knowloom.server.auth import Keyring

CANARY = "canary"  # in every field of every hidden item, and in nothing else
SALES = {"groups": ["sales"]}
HIDDEN = {"groups": ["hr"], CANARY: CANARY}
FILTER = {"groups": {"$any": ["sales", "all"]}}
COMPOSITE = "composite.db"
Request = tuple[str, str, Any]


def visible_items() -> list[Item]:
    def visible(id: str, kind: Any = "node", **fields: Any) -> Item:
        item = Item(id, "s", kind, properties=SALES, created_at=NOW)
        return replace(item, **fields)

    return [
        visible("faq", type="faq", title="Refunds", text="A refund takes a week"),
        visible("note", type="note", title="Parcels", text="Parcels of a refund"),
        visible("order", "entity", type="Order", title="Order", properties=SALES | {"total": 5}),
        visible("buyer", "entity", type="Person", title="Buyer"),
        visible("global", "profile", title="All"),
        visible("m1", "memory", text="Ada asked for a refund", subject="c1"),
        visible("open", type="faq", text="refund hours", properties={"groups": "all"}),
    ]


def hidden_items() -> list[Item]:
    def hidden(id: str, kind: Any = "node", **fields: Any) -> Item:
        text = f"refund refund order {CANARY}"
        item = Item(f"{CANARY}-{id}", "s", kind, title=f"Refund {CANARY}", text=text)
        return replace(item, properties=HIDDEN, tags=(CANARY,), source=CANARY, **fields)

    return [
        hidden("faq", type="faq"),
        hidden("entity", "entity", type="Order"),
        hidden("claim", "claim", type="fact", subject="order"),
        hidden("rule", "rule", type="axiom", subject="Order"),
        hidden("memory", "memory", subject="c1"),
        replace(hidden("profile", "profile"), id="secret"),
    ]


def hidden_edges() -> list[Edge]:
    ends = ("faq", "note", "order", "m1")
    targets = ("faq", "entity", "memory")
    edges = [Edge(end, f"{CANARY}-{id}", CANARY, space="s") for end in ends for id in targets]
    return [*edges, Edge(f"{CANARY}-entity", "buyer", CANARY, space="s")]


VISIBLE_EDGES = [
    Edge("faq", "note", "LEADS_TO", 0.9, space="s"),
    Edge("faq", "order", "ABOUT", 0.9, space="s"),
    Edge("buyer", "order", "PLACED", 0.8, space="s"),
]


def fill(kb: knowloom.Engine, hidden: bool) -> None:
    if not hidden:
        kb.add(visible_items(), VISIBLE_EDGES)
        return
    kb.add(hidden_items())
    *edges, explained = VISIBLE_EDGES
    kb.add(visible_items(), [*edges, replace(explained, item_id=f"{CANARY}-claim")])
    kb.add([], hidden_edges())
    # Hidden until it was deleted, and hidden so far.
    past = Item("past", "s", text=f"refund {CANARY}", properties=HIDDEN)
    kb.add([past, replace(past, id="gone")], [Edge("faq", "gone", CANARY, space="s")])
    kb.delete("gone", space="s")


def query(**options: Any) -> dict[str, Any]:
    return {"query": "refund of an order", "spaces": ["s"], "now": "2026-06-01T00:00:00Z"} | options


def item_row(id: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "text": "new refund", "properties": {"groups": ["sales"]}} | fields


def edge_row(source: str, target: str) -> dict[str, Any]:
    return {"source": source, "target": target, "type": "new", "space": "s"}


def memory_query(**options: Any) -> dict[str, Any]:
    times = {"now": "2026-06-01T00:00:00Z", "mode": "bm25"}
    return {"workspace": "s", "query": "refund", **times} | options


EVALUATION = {
    "questions": [{"question": "refund", "expected": ["faq"]}],
    "spaces": ["s"],
    "configurations": [{"name": "words", "options": {"mode": "bm25"}}],
}
# At least one request for each route, without the ids of hidden items. Reads come first.
REQUESTS: list[Request] = [
    ("POST", "/api/context", {"query": "refund order", "tenant_ids": ["s"], "format": "markdown"}),
    ("POST", "/api/context", {"query": "refund", "tenant_ids": ["s"], "expansion": "walk"}),
    ("POST", "/api/context", {"query": "refund", "tenant_ids": ["s"], "agent": "editor"}),
    ("POST", "/api/search", query(limit=50)),
    ("POST", "/api/search", query(limit=50, mode="walk")),
    ("POST", "/api/search", query(where={"groups": {"$exists": True}})),
    ("POST", "/api/search", query(where={"groups": {"$any": ["hr"]}})),
    ("POST", "/api/search", query(as_of="2099-01-01T00:00:00Z")),
    ("POST", "/api/explain", query(ids=["faq"], paths=True, citations=True)),
    ("POST", "/api/explain", query(recipe="profile", entity="order", max_tokens=60)),
    ("POST", "/api/provide", {"query": "refund", "spaces": ["s"], "entity_id": "order"}),
    ("POST", "/api/graph", {"query": "order refund", "spaces": ["s"], "include_claims": True}),
    ("POST", "/api/graph", {"entities": ["order"], "spaces": ["s"], "include_claims": True}),
    ("POST", "/api/check", {"spaces": ["s"]}),
    ("POST", "/api/assemble", query(fragments=True)),
    ("GET", "/api/agents", None),
    ("POST", "/api/check_answer", {"answer": "A refund takes a week.", "spaces": ["s"]}),
    ("GET", "/api/spaces", None),
    ("GET", "/api/spaces/s/items", None),
    ("GET", "/api/spaces/s/items?limit=1", None),
    ("GET", "/api/spaces/s/items?where=groups any hr,sales", None),
    ("GET", "/api/spaces/s/items/faq", None),
    ("GET", "/api/spaces/s/edges", None),
    ("GET", "/api/spaces/s/edges?limit=1", None),
    ("GET", "/api/export?space=s", None),
    ("GET", "/api/export?space=s&where=groups exists", None),
    ("GET", "/api/items/faq/read", None),
    ("GET", "/api/items/missing/read", None),
    ("POST", "/api/read", {"id": "order", "spaces": ["s"]}),
    ("POST", "/api/items", {"space": "s", "ids": ["faq", "note"]}),
    ("POST", "/api/page", {"spaces": ["s"]}),
    ("POST", "/api/edge_page", {"spaces": ["s"], "made": None}),
    ("POST", "/api/related", {"id": "faq", "spaces": ["s"]}),
    ("POST", "/api/browse", {"spaces": ["s"]}),
    ("POST", "/api/facets", {"spaces": ["s"]}),
    ("POST", "/api/neighbours", {"items": [{"space": "s", "id": "faq"}], "spaces": ["s"]}),
    ("POST", "/api/ask/context", query(vector=[1.0, 0.0])),
    ("POST", "/api/ask/search", query(mode="bm25", vector=[1.0, 0.0])),
    ("GET", "/api/items/faq/history?space=s", None),
    ("POST", "/api/history", {"space": "s", "id": "order"}),
    ("POST", "/api/history", {"space": "s", "id": "buyer"}),
    ("POST", "/api/history", {"space": "s", "id": "past"}),
    ("POST", "/api/memory/search", memory_query(include_relationships=True)),
    ("POST", "/api/memory/search_many", {"workspace": "s", "queries": ["refund"], "mode": "bm25"}),
    ("POST", "/api/memory/context", memory_query(include_metadata=True)),
    ("POST", "/api/memory/preview", memory_query()),
    ("POST", "/api/spaces/s/items", item_row("new")),
    ("PUT", "/api/spaces/s/items/new2", item_row("new2")),
    ("DELETE", "/api/spaces/s/items/new2", None),
    ("POST", "/api/spaces/s/bulk", {"items": [item_row("new3")], "edges": []}),
    ("POST", "/api/spaces/s/files", {"files": [{"path": "a.md", "content": "IyBBCgpi"}]}),
    ("POST", "/api/spaces/s/edges", {"source": "faq", "target": "buyer", "type": "new"}),
    ("POST", "/api/spaces/s/edges/delete", {"source": "faq", "target": "buyer", "type": "new"}),
    ("POST", "/api/add", {"items": [item_row("new4", space="s")]}),
    ("POST", "/api/load", {"items": [item_row("new5", space="s")]}),
    ("POST", "/api/delete", {"space": "s", "ids": ["new4"]}),
    ("POST", "/api/unlink", {"edges": [edge_row("faq", "buyer")]}),
    ("POST", "/api/restore", {"space": "s", "id": "new4"}),
    ("POST", "/api/restore", {"space": "s", "id": "gone"}),
    ("POST", "/api/memory/remember", {"workspace": "s", "content": "x", "metadata": SALES}),
    ("POST", "/api/memory/delete", {"workspace": "s", "ids": ["m1"]}),
    ("POST", "/api/rollback", {"to": "2000-01-01T00:00:00Z", "spaces": ["s"], "dry_run": True}),
    ("POST", "/api/rollback", {"to": "2000-01-01T00:00:00Z", "spaces": ["s"]}),
    *(("GET", path, None) for path in ("/healthz", "/readyz", "/metrics")),
    *(("GET", f"/api/{name}", None) for name in ("stats", "verify")),
    *(("POST", f"/api/{name}", {}) for name in ("embed", "relink", "reindex")),
    ("POST", "/api/diff", {"before": query(), "after": query(as_of="2099-01-01T00:00:00Z")}),
    ("POST", "/api/evaluate", EVALUATION),
    *(("GET", f"/api/{name}", None) for name in ("key", "keys", "health")),
    ("POST", "/api/keys", {"name": "x", "reads": ["s"]}),
    ("POST", "/api/keys/unknown/revoke", None),
    ("POST", "/api/ingest", {"space": "s", "text": "A refund takes a week."}),
    ("GET", "/api/jobs/unknown", None),
    *(("GET", f"/api/memory/{name}?workspace=s", None) for name in ("analytics", "queries")),
    *(("GET", f"/api/{name}", None) for name in ("audit", "backups", "retention")),
    ("POST", "/api/backup", {}),
    ("POST", "/api/purge", {"space": "s", "ids": ["new"]}),
    ("POST", "/api/retention", {"space": "s", "days": 30}),
]
# Requests that name the hidden item ID; the answer is that for an id which was never stored.
BY_ID: list[Request] = [
    ("GET", "/api/spaces/s/items/ID", None),
    ("DELETE", "/api/spaces/s/items/ID", None),
    ("GET", "/api/items/ID/read?space=s", None),
    ("GET", "/api/items/ID/history?space=s", None),
    ("POST", "/api/read", {"id": "ID"}),
    ("POST", "/api/items", {"space": "s", "ids": ["ID", "faq"]}),
    ("POST", "/api/history", {"space": "s", "id": "ID"}),
    ("POST", "/api/restore", {"space": "s", "id": "ID", "at": "2099-01-01T00:00:00Z"}),
    ("POST", "/api/delete", {"space": "s", "ids": ["ID"]}),
    ("POST", "/api/unlink", {"edges": [edge_row("faq", "ID") | {"type": CANARY}]}),
    ("POST", "/api/explain", query(ids=["ID"])),
    ("POST", "/api/explain", query(entity="ID")),
    ("POST", "/api/provide", {"query": "refund", "spaces": ["s"], "entity_id": "ID"}),
    ("POST", "/api/graph", {"entities": ["ID"], "spaces": ["s"]}),
    ("POST", "/api/page", {"spaces": ["s"], "after": {"space": "s", "id": "ID"}}),
    ("POST", "/api/neighbours", {"items": [{"space": "s", "id": "ID"}], "spaces": ["s"]}),
    ("POST", "/api/spaces/s/edges", {"source": "faq", "target": "ID", "type": "new"}),
    ("POST", "/api/add", {"edges": [edge_row("ID", "faq")]}),
    ("POST", "/api/load", {"edges": [edge_row("ID", "faq")]}),
    ("POST", "/api/memory/delete", {"workspace": "s", "ids": ["ID"]}),
    ("POST", "/api/memory/remember", {"workspace": "s", "content": "y", "supersedes": ["ID"]}),
]  # fmt: skip
LOW_CONFIDENCE = "low_confidence"  # follows from the scores
VOLATILE = {
    *("score", "signals", "timings_ms", "digest", "tokens", "bm25", "optimality_gap", "rank"),
    *("ranking_scores", "reasons"),
    *("confidence", "at", "created_at", "updated_at", "version", "similarity", "why", "number"),
}


@pytest.fixture(params=["memory", "sqlite", "composite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    urls = {"memory": "memory:", "sqlite": str(tmp_path / "store.db")}
    return urls.get(request.param, f"{tmp_path}/{COMPOSITE}")


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path / "keys.json")


def open_knowledge(url: str) -> knowloom.Engine:
    """Open the knowledge: in one store, or with profiles in files and edges in networkx."""
    if not url.endswith(COMPOSITE):
        return knowloom.open(url, embedder=None)
    folder = f"file:{url}.files"
    return knowloom.open(url, metadata=folder, words="memory:", graph="networkx:", embedder=None)


@pytest.fixture
def client(url: str, keyring: Keyring) -> Iterator[TestClient]:
    with open_knowledge(url) as kb:
        fill(kb, hidden=True)
        with serve_app(kb, keyring) as client:
            client.headers |= bearer(restricted_secret(keyring))
            yield client


@pytest.fixture
def bare_client(url: str, keyring: Keyring) -> Iterator[TestClient]:
    """A client of the same knowledge without hidden items."""
    folder, slash, name = url.rpartition("/")
    with open_knowledge(f"{folder}{slash}bare-{name}" if slash else url) as kb:
        fill(kb, hidden=False)
        with serve_app(kb, keyring) as client:
            client.headers |= bearer(restricted_secret(keyring))
            yield client


def restricted_secret(keyring: Keyring, role: str = "editor") -> str:
    return keyring.add(
        "sales", reads=["*"], writes=["*"], role=role, tier="enterprise", now=NOW, where=FILTER
    )[1]


def send(client: TestClient, request: Request, id: str = "") -> tuple[int, str]:
    method, path, body = request
    row = None if body is None else json.loads(json.dumps(body).replace('"ID"', json.dumps(id)))
    response = client.request(method, path.replace("ID", id), json=row)
    return response.status_code, response.text


def test_every_route_is_requested(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    routes = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    patterns = {route: _pattern(route[1]) for route in routes}
    requested = {
        route
        for method, path, _ in REQUESTS
        for route in routes
        if route[0] == method
        and patterns[route] == _pattern(path.partition("?")[0], routes, method)
    }
    assert routes - requested == set()


def _pattern(path: str, routes: set[tuple[str, str]] | None = None, method: str = "") -> str:
    """Return the path of a route, or the route that a path belongs to."""
    if routes is None:
        return path
    parts = path.split("/")
    matching = [
        route
        for verb, route in routes
        if verb == method
        and len(route.split("/")) == len(parts)
        and all(
            part == name or name.startswith("{")
            for part, name in zip(parts, route.split("/"), strict=True)
        )
    ]
    return max(matching, key=lambda route: -route.count("{"))


def test_no_answer_contains_a_hidden_item(client: TestClient) -> None:
    for request in REQUESTS:
        status, text = send(client, request)
        assert CANARY not in text.lower(), (request, text)
        assert status < 500 and status != 422, (request, text)


def test_reads_answer_as_if_hidden_items_were_not_stored(
    client: TestClient, bare_client: TestClient
) -> None:
    reads = [request for request in REQUESTS if "past" not in json.dumps(request)]
    for request in reads[: [row[1] for row in reads].index("/api/spaces/s/items", 40)]:
        (status, text), (bare_status, bare_text) = send(client, request), send(bare_client, request)
        assert status == bare_status, (request, text, bare_text)
        assert strip(text) == strip(bare_text), request


def strip(text: str) -> Any:
    """Return the answer without numbers that the statistics of the whole space influence."""
    rows = [json.loads(line) for line in text.splitlines() if line]
    return [_strip(row) for row in rows]


def _strip(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _strip(inner) for name, inner in value.items() if name not in VOLATILE}
    if not isinstance(value, list):
        return value
    rows = [row for row in value if not isinstance(row, dict) or row.get("code") != LOW_CONFIDENCE]
    return [_strip(row) for row in rows]


def test_a_hidden_id_is_answered_as_an_unknown_one(client: TestClient) -> None:
    hidden, unknown = f"{CANARY}-faq", f"{CANARY}-faz"
    for request in BY_ID:
        status, text = send(client, request, hidden)
        bare_status, bare_text = send(client, request, unknown)
        assert status == bare_status, (request, text)
        assert strip(text.replace(hidden, unknown)) == strip(bare_text), request


@pytest.mark.parametrize("groups", [["hr"], [], None, "sale", 5, {"sales": True}])
def test_an_item_outside_the_filter_cannot_be_written(client: TestClient, groups: Any) -> None:
    properties = {} if groups is None else {"groups": groups}
    row = item_row("fresh", space="s", properties=properties)
    for request in (
        ("POST", "/api/spaces/s/items", row),
        ("PUT", "/api/spaces/s/items/fresh", row),
        ("PUT", "/api/spaces/s/items/faq", row | {"id": "faq"}),
        ("POST", "/api/add", {"items": [row]}),
        ("POST", "/api/load", {"items": [row]}),
        ("POST", "/api/spaces/s/bulk", {"items": [row]}),
    ):
        status, text = send(client, request)
        assert (status, json.loads(text)["code"]) == (403, "filtered"), (request, text)
    assert send(client, ("GET", "/api/spaces/s/items/fresh", None))[0] == 404
    assert (
        json.loads(send(client, ("GET", "/api/spaces/s/items/faq", None))[1])["text"]
        != "new refund"
    )


def test_a_hidden_item_can_be_neither_replaced_nor_deleted(url: str, keyring: Keyring) -> None:
    id = f"{CANARY}-faq"
    with open_knowledge(url) as kb:
        fill(kb, hidden=True)
        before = kb.get(id, space="s")
        with serve_app(kb, keyring) as client:
            client.headers |= bearer(restricted_secret(keyring))
            for request in (
                ("POST", "/api/spaces/s/items", item_row("ID")),
                ("PUT", "/api/spaces/s/items/ID", item_row("ID")),
                ("POST", "/api/add", {"items": [item_row("ID", space="s")]}),
                ("POST", "/api/load", {"items": [item_row("ID", space="s")]}),
            ):
                status, text = send(client, request, id)
                assert status == 403 and "id is in use" in text, (request, text)
            versions = {"space": "s", "id": id, "version": kb.history.version(before[0])}
            body = {"items": [item_row("x", space="s")], "expected": [versions]}
            assert client.post("/api/add", json=body).status_code == 409
            client.post("/api/delete", json={"space": "s", "ids": [id]})
            client.post("/api/rollback", json={"to": "2000-01-01T00:00:00Z", "spaces": ["s"]})
        assert kb.get(id, space="s") == before
        assert kb.get("past", space="s") and not kb.get("faq", space="s")


def test_an_item_that_becomes_visible_has_no_earlier_history(url: str) -> None:
    with open_knowledge(url) as kb:
        fill(kb, hidden=True)
        kb.add(Item("past", "s", text="now public", properties=SALES))
        sales = knowloom.restrict(kb, FILTER)
        states = sales.history.states("past", space="s")
        assert [(state.action, state.item and state.item.text) for state in states] == [
            ("add", "now public")
        ]
        kb.add(Item("past", "s", text=CANARY, properties=HIDDEN))
        with pytest.raises(NotFound):
            sales.history.states("past", space="s")


def test_as_of_does_not_show_an_earlier_hidden_state(url: str) -> None:
    with open_knowledge(url) as kb:
        item = Item("a", "s", text=f"refund {CANARY}", properties=HIDDEN, created_at=NOW)
        kb.add(item)
        as_of = kb.reader.now()
        kb.add(replace(item, text="refund for all", properties=SALES))
        sales = knowloom.restrict(kb, FILTER)
        texts = [hit.item.text for hit in sales.search("refund", spaces=["s"], as_of=as_of)]
        assert texts == ["refund for all"]
        assert CANARY not in sales.context("refund", spaces=["s"], as_of=as_of).text


def test_an_empty_list_of_groups_shows_nothing(url: str) -> None:
    with open_knowledge(url) as kb:
        fill(kb, hidden=True)
        nobody = knowloom.restrict(kb, {"groups": {"$any": []}})
        assert nobody.search("refund", spaces=["s"]) == list(nobody.items()) == []


def test_filters_of_a_key_and_of_a_request_both_hold(client: TestClient) -> None:
    def ids(where: Any) -> list[str]:
        body = query(where=where, limit=50)
        return [row["item"]["id"] for row in client.post("/api/search", json=body).json()["hits"]]

    assert ids({"groups": "all"}) == ["open"]
    assert ids({"groups": {"$any": ["hr"]}}) == []
    assert CANARY not in client.post("/api/search", json=query(where={CANARY: CANARY})).text


def test_a_filter_is_stored_with_the_key(keyring: Keyring) -> None:
    key = Keyring(keyring.path).find(restricted_secret(keyring))
    assert key is not None
    assert key.where == (ItemCondition("groups", "$any", ("sales", "all")),)


def test_a_key_with_a_filter_cannot_be_admin(keyring: Keyring) -> None:
    with pytest.raises(Invalid, match="admin sees everything"):
        restricted_secret(keyring, "admin")


@pytest.mark.parametrize("where", ["{}", "[]", "null", '{"a": {"$foo": 1}}', '"a=1"', "[1]"])
def test_a_filter_that_cannot_be_read_closes_the_file(keyring: Keyring, where: str) -> None:
    secret = restricted_secret(keyring)
    rows = json.loads(keyring.path.read_text())
    rows["keys"][0]["where"] = json.loads(where)
    keyring.path.write_text(json.dumps(rows))
    with pytest.raises(Corrupt):
        keyring.find(secret)


def test_a_changed_filter_applies_to_the_next_request(url: str, keyring: Keyring) -> None:
    with open_knowledge(url) as kb:
        fill(kb, hidden=True)
        secret = restricted_secret(keyring)
        with serve_app(kb, keyring) as client:
            client.headers |= bearer(secret)
            assert CANARY not in client.post("/api/search", json=query()).text
            rows = json.loads(keyring.path.read_text())
            rows["keys"][0]["where"] = {"groups": {"$any": ["hr"]}}
            keyring.path.write_text(json.dumps(rows) + " ")
            assert CANARY in client.post("/api/search", json=query()).text
