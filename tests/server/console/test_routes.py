"""The routes of the console: browsing, neighbours, files, evaluation, health and keys."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
from starlette.testclient import TestClient

from knowloom.server.auth import Keyring

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def bearer(keyring: Keyring, **rights: object) -> dict[str, str]:
    defaults = {"reads": (), "writes": (), "role": "viewer", "tier": "teams", "where": ()}
    _, secret = keyring.add("test", now=NOW, **(defaults | rights))
    return {"authorization": f"Bearer {secret}"}


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_pages_of_items_are_complete_and_have_no_texts(client: TestClient) -> None:
    body, ids = {"spaces": ["support", "shared"], "limit": 25}, []
    while True:
        page = client.post("/api/browse", json=body).json()
        ids += [(row["space"], row["id"]) for row in page["items"]]
        assert all("text" not in row and len(row["snippet"]) <= 160 for row in page["items"])
        if page["next"] is None:
            break
        body["after"] = page["next"]
    counted = client.post("/api/facets", json={"spaces": ["support", "shared"]}).json()
    assert ids == sorted(set(ids)) and len(ids) == counted["items"] > 100


def test_facets_count_what_browsing_finds(client: TestClient) -> None:
    facets = client.post("/api/facets", json={"spaces": ["support"]}).json()
    assert facets["complete"]
    for name, field in (("kinds", "kinds"), ("types", "types"), ("tags", "tags")):
        facet = facets[name][0]
        body = {"spaces": ["support"], field: [facet["value"]], "limit": 1000}
        assert len(client.post("/api/browse", json=body).json()["items"]) == facet["count"]


def test_neighbours_have_both_ends_and_stay_in_readable_spaces(
    guarded_client: TestClient, keyring: Keyring
) -> None:
    body = {"items": [{"space": "support", "id": "process-a-refund"}]}
    both = guarded_client.post(
        "/api/neighbours", json=body, headers=bearer(keyring, reads=["*"])
    ).json()
    only = guarded_client.post(
        "/api/neighbours", json=body, headers=bearer(keyring, reads=["support"])
    ).json()
    assert {row["space"] for row in both["items"]} == {"support", "shared"}
    assert {row["space"] for row in only["items"]} == {"support"}
    ids = {row["id"] for row in only["items"]}
    assert only["edges"] and all({e["source"], e["target"]} <= ids for e in only["edges"])


@pytest.mark.parametrize("path", ["/api/browse", "/api/facets"])
def test_spaces_of_others_are_refused(
    guarded_client: TestClient, keyring: Keyring, path: str
) -> None:
    headers = bearer(keyring, reads=["support"])
    assert (
        guarded_client.post(path, json={"spaces": ["finance"]}, headers=headers).status_code == 403
    )
    rows = guarded_client.post("/api/browse", json={}, headers=headers).json()["items"]
    assert {row["space"] for row in rows} == {"support"}


def test_uploaded_documents_are_loaded_and_replaced(client: TestClient) -> None:
    def upload(text: str) -> dict[str, object]:
        files = [{"path": "notes/lighthouse.md", "content": encode(text)}]
        return client.post("/api/spaces/uploads/files", json={"files": files}).json()

    assert upload("# Lighthouse\n\nThe lamp turns at dusk.")["added"] == 1
    assert upload("# Lighthouse\n\nThe lamp turns at dawn.")["updated"] == 1
    rows = client.post("/api/search", json={"query": "lamp", "spaces": ["uploads"]}).json()
    assert [("dawn" in hit["item"]["text"]) for hit in rows["hits"]] == [True]


@pytest.mark.parametrize("path", ["../x.md", "/", "a/../../x.md"])
def test_paths_that_leave_their_folder_are_refused(client: TestClient, path: str) -> None:
    files = [{"path": path, "content": encode("x")}]
    assert client.post("/api/spaces/uploads/files", json={"files": files}).status_code == 422


def test_uploaded_rows_cannot_name_other_spaces(client: TestClient) -> None:
    row = json.dumps({"id": "x", "space": "finance", "text": "forged"})
    files = [{"path": name, "content": encode(row)} for name in ("x.jsonl", "x.json", "x.md")]
    report = client.post("/api/spaces/uploads/files", json={"files": files}).json()
    assert len(report["skipped"]) == 3 and report["added"] == 0


def test_viewers_upload_nothing(guarded_client: TestClient, keyring: Keyring) -> None:
    body = {"files": [{"path": "a.md", "content": encode("a")}]}
    headers = bearer(keyring, reads=["*"])
    response = guarded_client.post("/api/spaces/support/files", json=body, headers=headers)
    assert response.status_code == 403


def test_an_evaluation_streams_its_progress_and_compares(client: TestClient) -> None:
    body = {
        "questions": [{"question": "process a refund", "expected": ["process-a-refund"]}],
        "spaces": ["support"],
        "configurations": [
            {"name": "A", "options": {}},
            {"name": "B", "options": {"mode": "bm25"}},
        ],
    }
    response = client.post("/api/evaluate", json=body)
    *progress, last = [json.loads(line) for line in response.text.splitlines()]
    assert progress and all("progress" in line for line in progress)
    assert len(last["result"]["configurations"]) == 2 and "comparison" in last["result"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"questions": [{"question": "x", "expected": ["no-such-item"]}]}, "no-such-item"),
        ({"configurations": [{"name": "A", "options": {"colour": 1}}]}, "colour"),
        ({"questions": [{"expected": ["process-a-refund"]}]}, "questions[0]"),
    ],
)
def test_bad_evaluations_are_refused_before_they_run(
    client: TestClient, change: dict[str, object], message: str
) -> None:
    body = {
        "questions": [{"question": "refund", "expected": ["process-a-refund"]}],
        "spaces": ["support"],
        "configurations": [{"name": "A"}],
    }
    response = client.post("/api/evaluate", json=body | change)
    assert response.status_code in (404, 422) and message in response.text


def test_health_counts_requests_and_sizes(client: TestClient) -> None:
    client.post("/api/browse", json={})
    health = client.get("/api/health").json()
    support = next(row for row in health["spaces"] if row["name"] == "support")
    assert support["items"] > 0 and support["without_vector"] == support["items"]
    browse = next(row for row in health["requests"] if row["route"] == "/api/browse")
    assert browse["statuses"] == {"200": 1} and browse["p95_ms"] > 0


def test_admins_create_and_revoke_keys(guarded_client: TestClient, keyring: Keyring) -> None:
    admin = bearer(keyring, writes=["*"], role="admin")
    body = {"name": "reporting", "reads": ["support"]}
    created = guarded_client.post("/api/keys", json=body, headers=admin).json()
    headers = {"authorization": f"Bearer {created['secret']}"}
    assert guarded_client.get("/api/key", headers=headers).json()["reads"] == ["support"]
    assert created["secret"] not in guarded_client.get("/api/keys", headers=admin).text
    assert "hash" not in guarded_client.get("/api/keys", headers=admin).json()["keys"][0]
    guarded_client.post(f"/api/keys/{created['id']}/revoke", headers=admin)
    assert guarded_client.get("/api/key", headers=headers).status_code == 401


def test_no_key_gives_more_than_it_has(guarded_client: TestClient, keyring: Keyring) -> None:
    wide = bearer(keyring, writes=["*"], role="admin")
    admin = bearer(keyring, writes=["support"], role="admin")
    for body in ({"name": "x", "reads": ["finance"]}, {"name": "x", "writes": ["*"]}):
        assert guarded_client.post("/api/keys", json=body, headers=admin).status_code == 403
    above = {"name": "x", "reads": ["support"], "tier": "enterprise"}
    assert guarded_client.post("/api/keys", json=above, headers=admin).status_code == 403
    other = guarded_client.get("/api/key", headers=wide).json()["id"]
    assert guarded_client.post(f"/api/keys/{other}/revoke", headers=admin).status_code == 404
    editor = bearer(keyring, writes=["*"], role="editor")
    for path in ("/api/keys", "/api/health"):
        assert guarded_client.get(path, headers=editor).status_code == 403
