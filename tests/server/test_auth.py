"""Tests of API keys: access by role and space, and the key file."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import knowloom
from http_api import (
    ITEM,
    NOW,
    bearer,
    create_secret,
)
from knowloom.server.auth import Keyring
from server_process import (
    run_keys,
)


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Basic eDp5"},
        bearer("knowloom_x_y"),
        {"x-api-key": "a_b_é".encode("latin-1")},
    ],
)
def test_requests_without_a_valid_key_are_refused(
    guarded_client: TestClient, header: dict[str, Any]
) -> None:
    response = guarded_client.get("/api/spaces", headers=header)
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


def test_both_headers_accept_a_key(guarded_client: TestClient, keyring: Keyring) -> None:
    key = create_secret(keyring)
    assert guarded_client.get("/api/spaces", headers=bearer(key)).status_code == 200
    assert guarded_client.get("/api/spaces", headers={"x-api-key": key}).status_code == 200


@pytest.mark.parametrize(
    ("role", "method", "path", "body", "status"),
    [
        ("viewer", "POST", "/api/context", {"query": "x", "tenant_ids": ["support"]}, 200),
        ("viewer", "POST", "/api/context", {"query": "x", "tenant_ids": []}, 200),
        ("viewer", "POST", "/api/context", {"tenant_ids": ["support", "shared"]}, 403),
        ("viewer", "POST", "/api/context", {"tenant_ids": ["no such space"]}, 403),
        ("viewer", "POST", "/api/search", {"query": "x", "spaces": ["shared"]}, 403),
        ("viewer", "POST", "/api/explain", {"query": "x", "spaces": ["shared"]}, 403),
        ("viewer", "GET", "/api/spaces/shared/items", None, 403),
        ("viewer", "GET", "/api/spaces/shared/items/refund-policy", None, 403),
        ("viewer", "GET", "/api/spaces/shared/edges", None, 403),
        ("viewer", "GET", "/api/export?space=support&space=shared", None, 403),
        ("viewer", "POST", "/api/spaces/support/items", ITEM, 403),
        ("viewer", "PUT", "/api/spaces/support/items/a", ITEM, 403),
        ("viewer", "DELETE", "/api/spaces/support/items/process-a-refund", None, 403),
        ("viewer", "POST", "/api/spaces/support/bulk", {}, 403),
        ("viewer", "GET", "/metrics", None, 403),
        ("editor", "POST", "/api/spaces/support/items", ITEM, 201),
        ("editor", "POST", "/api/spaces/shared/items", ITEM, 403),
        ("editor", "POST", "/api/spaces/new/bulk", {}, 403),
        (
            "editor",
            "POST",
            "/api/spaces/support/edges",
            {"source": "process-a-refund", "target": "refund-policy", "target_space": "shared"},
            403,
        ),
        ("editor", "GET", "/metrics", None, 403),
        ("admin", "GET", "/metrics", None, 403),
        ("admin", "GET", "/api/stats", None, 200),
    ],
)
def test_a_key_opens_only_its_spaces(
    guarded_client: TestClient,
    keyring: Keyring,
    role: str,
    method: str,
    path: str,
    body: Any,
    status: int,
) -> None:
    key = create_secret(keyring, role, writes=() if role == "viewer" else ("support",))
    assert (
        guarded_client.request(method, path, json=body, headers=bearer(key)).status_code == status
    )


def test_a_bulk_load_cannot_link_into_a_space_that_the_key_may_not_read(
    guarded_client: TestClient, keyring: Keyring
) -> None:
    edges = [{"source": "process-a-refund", "target": "refund-policy", "target_space": "shared"}]
    report = guarded_client.post(
        "/api/spaces/support/bulk",
        json={"edges": edges},
        headers=bearer(create_secret(keyring, "editor", writes=("support",))),
    ).json()
    assert (report["edges"], len(report["skipped"])) == (0, 1)


def test_only_readable_spaces_are_listed_and_named_in_errors(
    guarded_client: TestClient, keyring: Keyring
) -> None:
    assert [
        space["name"]
        for space in guarded_client.get(
            "/api/spaces", headers=bearer(create_secret(keyring))
        ).json()["spaces"]
    ] == ["support"]
    responses = [
        guarded_client.post(
            "/api/context",
            json={"query": "refund", "tenant_ids": ["nowhere"]},
            headers=bearer(create_secret(keyring, reads=reads)),
        )
        for reads in (("*",), ("support",))
    ]
    assert [response.status_code for response in responses] == [404, 403]
    assert ["analytics" in response.text for response in responses] == [True, False]


@pytest.mark.parametrize("path", ["/api/explain", "/api/ask/context"])
def test_explanations_do_not_reveal_items_of_other_spaces(
    guarded_client: TestClient, keyring: Keyring, path: str
) -> None:
    request = {
        "query": "refund",
        "spaces": ["support"],
        "ids": ["refund-policy"],
        "max_tokens": 0,
    }
    omission = guarded_client.post(
        path, json=request, headers=bearer(create_secret(keyring))
    ).json()["left_out"][-1]
    assert (omission["id"], omission["space"], omission["reason"], omission["remedy"]) == (
        "refund-policy",
        "",
        "no such item is stored",
        "",
    )
    omission = guarded_client.post(
        path, json=request, headers=bearer(create_secret(keyring, reads=("*",)))
    ).json()["left_out"][-1]
    assert omission["reason"] == "it is in space 'shared', which was not requested"


def test_a_revoked_key_is_refused_at_once(guarded_client: TestClient, keyring: Keyring) -> None:
    key, text = keyring.add("k", reads=["*"], writes=[], role="viewer", tier="teams", now=NOW)
    assert guarded_client.get("/api/spaces", headers=bearer(text)).status_code == 200
    Keyring(keyring.path).revoke(key.id, NOW)
    assert guarded_client.get("/api/spaces", headers=bearer(text)).status_code == 401


def test_the_key_file_holds_hashes_and_is_private(keyring: Keyring) -> None:
    text = create_secret(keyring)
    assert (
        text not in keyring.path.read_text()
        and text.split("_", 2)[2] not in keyring.path.read_text()
    )
    assert stat.S_IMODE(keyring.path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"keys": 3}', '{"keys": [{"id": "x"}]}', '{"keys": [7]}']
)
def test_a_damaged_key_file_refuses_every_key(
    guarded_client: TestClient, keyring: Keyring, damage: str
) -> None:
    text = create_secret(keyring)
    keyring.path.write_text(damage)
    response = guarded_client.get("/api/spaces", headers=bearer(text))
    assert (response.status_code, str(keyring.path) in response.text) == (500, False)


def test_a_deleted_key_file_refuses_every_key(guarded_client: TestClient, keyring: Keyring) -> None:
    text = create_secret(keyring)
    keyring.path.unlink()
    assert guarded_client.get("/api/spaces", headers=bearer(text)).status_code == 401


def test_a_file_left_by_a_killed_process_stops_no_change(keyring: Keyring) -> None:
    partial = keyring.path.with_name(f"{keyring.path.name}.partial")
    partial.write_text("")
    os.utime(partial, (1, 1))
    create_secret(keyring)
    assert len(keyring.keys()) == 1 and not partial.exists()


def test_concurrent_additions_store_all_keys(keyring: Keyring) -> None:
    rings = [Keyring(keyring.path) for _ in range(8)]
    threads = [threading.Thread(target=create_secret, args=(ring,)) for ring in rings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keyring.keys()) == 8


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "king"},
        {"tier": "gold"},
        {"reads": []},
        {"writes": ["support"]},
        {"reads": ["a\nb"]},
    ],
)
def test_invalid_keys_are_refused(keyring: Keyring, wrong: dict[str, Any]) -> None:
    with pytest.raises(knowloom.Invalid):
        keyring.add(
            "k",
            **({"reads": ["support"], "writes": [], "role": "viewer", "tier": "teams"} | wrong),
            now=NOW,
        )  # type: ignore[arg-type]


def test_a_key_is_added_listed_and_revoked(store_file: Path) -> None:
    created = run_keys(store_file, "add", "reporting", "--read", "support", "--read", "shared")
    assert (
        Keyring(store_file.with_name("store.db.keys.json")).find(created.pop("secret")) is not None
    )
    listed = run_keys(store_file, "list")["keys"]
    assert listed[0].pop("last_used_at").endswith("Z")
    assert listed == [created]
    assert run_keys(store_file, "revoke", created["id"])["revoked_at"]
    assert run_keys(store_file, "revoke", "nobody")["error"]["code"] == "not_found"


def test_an_unknown_role_is_refused_with_the_available_ones(store_file: Path) -> None:
    assert (
        "admin, editor, viewer"
        in run_keys(store_file, "add", "k", "--read", "x", "--role", "king")["error"]["message"]
    )
