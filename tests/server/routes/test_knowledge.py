"""Tests of the routes of items and edges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import knowloom
from http_api import (
    CHAIN,
    ITEM,
    bulk_load,
    link,
    serve_app,
)
from paths import ROOT


def test_an_item_is_created_read_changed_and_deleted(client: TestClient) -> None:
    created = client.post("/api/spaces/t/items", json=ITEM)
    assert (created.status_code, created.json()["properties"]) == (201, ITEM["properties"])
    read = client.get("/api/spaces/t/items/a")
    assert read.json() == created.json() and read.headers["etag"] == f'"{read.json()["version"]}"'
    changed = client.put("/api/spaces/t/items/a", json=read.json() | {"text": "beta"})
    assert (changed.status_code, changed.json()["text"]) == (200, "beta")
    assert client.delete("/api/spaces/t/items/a").status_code == 204
    assert client.get("/api/spaces/t/items/a").status_code == 404


def test_creating_an_existing_item_is_a_conflict(client: TestClient) -> None:
    client.post("/api/spaces/t/items", json=ITEM)
    again = client.post("/api/spaces/t/items", json=ITEM)
    assert (again.status_code, again.json()["code"]) == (409, "exists")


def test_writes_with_a_stale_version_fail(client: TestClient) -> None:
    old = client.post("/api/spaces/t/items", json=ITEM).headers["etag"]
    new = client.put(
        "/api/spaces/t/items/a", json=ITEM | {"text": "beta"}, headers={"if-match": old}
    ).headers["etag"]
    late = client.put(
        "/api/spaces/t/items/a", json=ITEM | {"text": "gamma"}, headers={"if-match": old}
    )
    assert (late.status_code, late.json()["code"]) == (412, "changed")
    assert client.delete("/api/spaces/t/items/a", headers={"if-match": old}).status_code == 412
    assert client.get("/api/spaces/t/items/a").json()["text"] == "beta"
    assert (
        client.delete("/api/spaces/t/items/a", headers={"if-match": f"{old}, {new}"}).status_code
        == 204
    )


def test_the_version_in_the_body_acts_as_if_match(client: TestClient) -> None:
    read = client.post("/api/spaces/t/items", json=ITEM).json()
    client.put("/api/spaces/t/items/a", json=ITEM | {"text": "beta"})
    assert client.put("/api/spaces/t/items/a", json=read).status_code == 412


def test_if_match_star_requires_an_existing_item(client: TestClient) -> None:
    assert (
        client.put("/api/spaces/support/items/a", json=ITEM, headers={"if-match": "*"}).status_code
        == 404
    )
    client.post("/api/spaces/support/items", json=ITEM)
    assert (
        client.put("/api/spaces/support/items/a", json=ITEM, headers={"if-match": "*"}).status_code
        == 200
    )


def test_id_and_space_must_match_the_path(client: TestClient) -> None:
    assert client.put("/api/spaces/t/items/b", json=ITEM).status_code == 422
    assert client.put("/api/spaces/t/items/a", json=ITEM | {"space": "u"}).status_code == 422


def test_ids_may_contain_slashes(client: TestClient) -> None:
    client.post("/api/spaces/t/items", json=ITEM | {"id": "a/b c"})
    assert client.get("/api/spaces/t/items/a/b%20c").json()["id"] == "a/b c"


def test_pages_are_complete_and_disjoint(client: TestClient) -> None:
    bulk_load(
        client,
        "t",
        [{"id": f"n{n:02}", "type": "odd" if n % 2 else "even", "text": "x"} for n in range(25)],
        [*link("n00", "n01"), *link("n01", "n02")],
    )
    assert list(pages(client, "/api/spaces/t/items", "items", 10)) == [10, 10, 5]
    assert list(pages(client, "/api/spaces/t/items?type=odd", "items", 4)) == [4, 4, 4]
    assert list(pages(client, "/api/spaces/t/edges", "edges", 1)) == [1, 1]


@pytest.mark.parametrize("cursor", ["nonsense", "W10=", "WyJcdWQ4MDAiXQ==", "WzFd", "W" * 1999])
def test_invalid_cursors_are_refused(client: TestClient, cursor: str) -> None:
    response = client.get("/api/spaces/support/items", params={"cursor": cursor})
    assert (response.status_code, "cursor" in response.json()["detail"]) == (422, True)


def test_edges_are_created_listed_and_deleted(client: TestClient) -> None:
    bulk_load(client, "t", CHAIN)
    created = client.post(
        "/api/spaces/t/edges",
        json={"source": 1, "target": 2, "weight": 0.5, "properties": {"why": None}},
    )
    assert (created.status_code, created.json()["properties"]) == (201, {"why": None})
    assert len(client.get("/api/spaces/t/edges").json()["edges"]) == 1
    assert client.post("/api/spaces/t/edges/delete", json={"source": 1, "target": 2}).json() == {
        "deleted": 1
    }


def test_an_edge_to_a_missing_item_is_refused(client: TestClient) -> None:
    bulk_load(client, "t", CHAIN)
    response = client.post("/api/spaces/t/edges", json={"source": 1, "target": 99})
    assert (response.status_code, "99" in response.json()["detail"]) == (422, True)


def test_invalid_rows_are_reported_and_the_others_stored(client: TestClient) -> None:
    items = [
        {"id": "a", "text": "x"},
        {"id": "b"},
        {"id": "c", "text": "x", "space": "support"},
        {"id": "\ud800", "text": "x"},
        {"id": "e", "wrong": 1},
    ]
    response = client.post(
        "/api/spaces/t/bulk",
        content=json.dumps({"items": items}),
        headers={"content-type": "application/json"},
    )
    assert (response.status_code, response.json()["added"]) == (200, 1)
    assert [entry["where"] for entry in response.json()["skipped"]] == [
        "items[1]",
        "items[2]",
        "items[3]",
        "items[4]",
    ]
    assert client.get("/api/spaces/support/items/c").status_code == 404


def test_three_layers_are_stored_and_invalid_entries_reported(client: TestClient) -> None:
    layers = json.loads((ROOT / "examples" / "maya.json").read_text("utf-8"))
    layers["pieces"] += [{"content": "x", "knowledge_type": "rumour"}, 7]
    first, again = (client.post("/api/spaces/care/bulk", json=layers).json() for _ in range(2))
    assert (first["added"], first["edges"], again["unchanged"], again["added"]) == (7, 2, 7, 0)
    wrong = len(layers["pieces"]) - 2
    assert [(entry["where"], "rumour" in entry["why"]) for entry in first["skipped"]] == [
        (f"pieces[{wrong}]", True),
        (f"pieces[{wrong + 1}]", False),
    ]
    body = client.post(
        "/api/provide",
        json={"query": "chargebacks", "spaces": ["care"], "entity_id": "user:maya"},
    ).json()
    assert set(body["sections"]) >= {"user_profile", "instructions"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"pieces": {}}, "pieces"),
        ({"pieces": [], "items": []}, "items"),
        ({"graph": []}, "graph"),
    ],
)
def test_malformed_layers_are_refused(client: TestClient, body: Any, field: str) -> None:
    response = client.post("/api/spaces/t/bulk", json=body)
    assert (response.status_code, [error["field"] for error in response.json()["errors"]]) == (
        422,
        [field],
    )


def test_an_export_loads_back_exactly(client: TestClient, tmp_path: Path) -> None:
    exported = client.get("/api/export", params={"space": "support"})
    assert exported.headers["content-type"] == "application/x-ndjson"
    rows = (
        "\n".join(line for line in exported.text.splitlines() if "target_space" not in line)
        + "\nnonsense\n"
    )
    with knowloom.open(str(tmp_path / "new.db"), embedder=None) as kb, serve_app(kb) as other:
        report = other.post(
            "/api/spaces/support/bulk",
            content=rows.encode(),
            headers={"content-type": "application/x-ndjson"},
        ).json()
        assert [entry["where"] for entry in report["skipped"]] == [f"line {len(rows.splitlines())}"]
        again = other.get("/api/export", params={"space": "support"}).text
    assert again == rows.removesuffix("nonsense\n")


def test_spaces_are_listed(client: TestClient) -> None:
    assert [space["name"] for space in client.get("/api/spaces").json()["spaces"]] == [
        "analytics",
        "finance",
        "purchasing",
        "shared",
        "support",
    ]


def pages(client: TestClient, address: str, part: str, size: int) -> Iterator[int]:
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(
            address,
            params={"limit": size}
            | ({"cursor": cursor} if cursor else {})
            | ({"type": "odd"} if "type=" in address else {}),
        ).json()
        cursor = page["next"]
        yield len(page[part])
