"""Custom formats of a provider over HTTP and in the client: the same rule as in the library."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import knowloom
from http_api import NOW, bearer, create_secret, serve_app
from knowloom import Client, Engine, Forbidden
from knowloom.server.auth import Keyring
from live_server import serving


@pytest.fixture
def kb() -> Iterator[Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(knowloom.Item("limit", "maya", type="fact", title="Limit", text="100 dollars"))
        yield kb


FORMATS = {"*": "{title}: {text}"}


def test_custom_formats_of_a_provider_need_the_tier_enterprise(
    kb: Engine, keyring: Keyring
) -> None:
    body = {"query": "limit", "spaces": ["maya"], "formats": FORMATS}
    teams = create_secret(keyring, reads=("maya",))
    enterprise = keyring.add(
        "all", reads=("maya",), writes=(), role="viewer", tier="enterprise", now=NOW
    )[1]
    with serve_app(kb, keyring) as client:
        refused = client.post("/api/provide", json=body, headers=bearer(teams))
        assert (refused.status_code, refused.json()["code"]) == (403, "tier")
        answer = client.post("/api/provide", json=body, headers=bearer(enterprise)).json()
        assert answer["sections"]["context"].startswith("Limit: 100 dollars")
        lowered = client.post(
            "/api/provide", json=body | {"tier": "teams"}, headers=bearer(enterprise)
        )
        assert lowered.status_code == 403


@pytest.mark.parametrize(
    "value",
    [
        "{title}: {text}",
        knowloom.Template("{% for entry in entries %}{{ entry.text }}!{% endfor %}"),
        knowloom.Template("{{#each entries}}* {{text}}\n{{/each}}", "handlebars"),
    ],
)
def test_the_client_sends_formats_as_the_library_applies_them(
    kb: Engine, value: str | knowloom.Template
) -> None:
    with serving(kb) as address, Client(address) as client:
        sent = client.provide("limit", spaces=["maya"], formats={"context": value})
    local = knowloom.Provider(kb, spaces=["maya"], formats={"context": value}).provide("limit")
    assert dict(sent.sections) == dict(local.sections) and "100 dollars" in sent.sections["context"]
    assert sent.tokens == local.tokens


@pytest.mark.parametrize(
    "formats",
    [
        {"context": lambda entries: ""},
        {"context": "{{text}}"},
        {"context": "{nothing}"},
        {"context": knowloom.Template("{% if %}")},
    ],
)
def test_unusable_formats_are_refused(kb: Engine, formats: dict[str, str]) -> None:
    with serving(kb) as address, Client(address) as client:
        with pytest.raises(knowloom.Invalid, match="context"):
            client.provide("limit", spaces=["maya"], formats=formats)
        with pytest.raises(Forbidden):
            client.provide("limit", spaces=["maya"], formats={"*": "{text}"}, tier="teams")
