"""Tests of the routes that read items page by page, and of passages in responses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

import knowloom
from http_api import bulk_load, serve_app

SENTENCE = "Ships moor at the pier and report to the office. "
RULES = "".join(f"## Berth {n}\n\n{SENTENCE * 18}\n\n" for n in range(1, 9))
RULES = RULES.replace("## Berth 6\n\n", "## Berth 6\n\nTankers need a fire watch. ")
ROUTE = "/api/items/berths/read"


@pytest.fixture
def client() -> Iterator[TestClient]:
    with knowloom.open("memory:", embedder=None) as kb, serve_app(kb) as client:
        row = {"id": "berths", "type": "faq", "title": "Berth rules", "text": RULES}
        row |= {"summary": "Rules of the berths", "tags": ["x"], "properties": {"size": 3}}
        bulk_load(client, "harbor", [row, {"id": 7, "text": "Seven."}])
        yield client


def test_pages_are_followed_by_their_number(client: TestClient) -> None:
    texts, number = [], 1
    while number:
        row = client.get(
            ROUTE, params={"space": "harbor", "page": number, "max_tokens": 300}
        ).json()
        assert row["text"] == RULES[row["start"] : row["end"]] and row["tokens"] <= 300
        texts.append(row["text"])
        number = row["next"]
    assert "".join(texts) == RULES and len(texts) == row["pages"] > 5


def test_both_routes_return_the_same(client: TestClient) -> None:
    body = {"id": "berths", "spaces": ["harbor"], "max_tokens": 300, "passage": 5}
    parameters = {"space": "harbor", "max_tokens": 300, "passage": 5}
    page = client.post("/api/read", json=body).json()
    assert page == client.get(ROUTE, params=parameters).json()
    assert page["headings"] == ["Berth 6"] and "fire watch" in page["text"]


def test_the_first_page_has_the_fields(client: TestClient) -> None:
    page = client.get(ROUTE, params={"max_tokens": 300}).json()
    assert (page["summary"], page["tags"], page["properties"]) == (
        "Rules of the berths",
        ["x"],
        {"size": 3},
    )
    second = client.get(ROUTE, params={"max_tokens": 300, "page": 2}).json()
    assert not {"summary", "tags", "properties"} & set(second)


def test_integer_ids_are_returned_as_integers(client: TestClient) -> None:
    assert client.get("/api/items/7/read").json()["id"] == 7
    assert client.post("/api/read", json={"id": 7}).json()["text"] == "Seven."


def test_the_whole_text_can_be_requested_without_a_limit(client: TestClient) -> None:
    body = {"id": "berths", "max_tokens": None}
    assert client.post("/api/read", json=body).json()["text"] == RULES


@pytest.mark.parametrize(
    ("parameters", "status", "detail"),
    [
        ({"page": 99}, 422, "page must be an integer from 1 to 2, got 99"),
        ({"page": 0}, 422, "page: Input should be greater than or equal to 1"),
        ({"page": "x"}, 422, "page: Input should be a valid integer"),
        ({"passage": 99}, 422, "passage must be an integer from 0 to 7, got 99"),
        ({"max_tokens": 0}, 422, "max_tokens: Input should be greater than or equal to 1"),
        ({"model": "/etc/tokenizer.json"}, 422, "model: Value error, must be the name of a model"),
        ({"pages": 1}, 422, "pages: unknown parameter; available: max_tokens, model, page"),
        ({"space": "nowhere"}, 404, "unknown space 'nowhere'"),
        ({"space": ""}, 422, "space.0: String should have at least 1 character"),
        ({"space": "x" * 501}, 422, "space.0: String should have at most 500 characters"),
        ({"space": [f"s{n}" for n in range(201)]}, 422, "space: List should have at most 200"),
    ],
    ids=repr,
)
def test_bad_parameters_are_named(
    client: TestClient, parameters: dict[str, object], status: int, detail: str
) -> None:
    response = client.get(ROUTE, params={"max_tokens": 1000} | parameters)
    assert (response.status_code, response.json()["detail"][: len(detail)]) == (status, detail)


def test_an_unknown_item_is_404_with_similar_ids(client: TestClient) -> None:
    response = client.get("/api/items/berhts/read", params={"space": "harbor"})
    assert (response.status_code, response.json()["detail"]) == (
        404,
        "no item 'berhts' in space 'harbor'; similar: 'berths'",
    )


def test_the_schema_describes_pages(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    operation = schema["paths"]["/api/items/{id}/read"]["get"]
    names = {parameter["name"] for parameter in operation["parameters"]}
    assert names == {"id", "space", "page", "max_tokens", "passage", "model", "strict"}
    content = operation["responses"]["200"]["content"]["application/json"]["schema"]
    fields = schema["components"]["schemas"][content["$ref"].rpartition("/")[2]]["properties"]
    assert set(fields) == set(client.get(ROUTE).json())


def test_a_search_returns_the_passage_that_matched(client: TestClient) -> None:
    body = {"query": "fire watch for tankers", "spaces": ["harbor"]}
    (hit,) = client.post("/api/search", json=body).json()["hits"]
    passage = hit["passage"]
    assert passage["headings"] == ["Berth 6"]
    assert "Tankers need a fire watch" in RULES[passage["start"] : passage["end"]]
    assert hit["passages"][0].items() >= passage.items()


def test_an_excerpt_has_its_text_and_ranges(client: TestClient) -> None:
    body = {"query": "fire watch for tankers", "tenant_ids": ["harbor"], "max_tokens": 250}
    (node,) = client.post("/api/context", json=body).json()["entry_points"]
    assert (node["form"], node["summary"]) == ("excerpt", None)
    assert "Tankers need a fire watch" in node["content"]["text"]
    shown = [RULES[part["start"] : part["end"]].strip() for part in node["passages"]]
    assert all(text in node["content"]["text"] for text in shown)
    schema = client.get("/openapi.json").json()["components"]["schemas"]["EntryPoint"]
    assert "passages" in schema["properties"]
