"""Reading items page by page: an engine and a client of a real server behave the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from client_helpers import Kb, failure

from knowloom import Client, Engine, Forbidden, Invalid, Item, Kind, NotFound, Unavailable
from knowloom.registry import open_stores
from knowloom.server.auth import Keyring
from knowloom.tokens import get_counter
from live_server import NOW, serving

SENTENCE = "The harbor master inspects every parcel before it is shipped to the customer. "
GUIDE = "".join(f"## Part {number}\n\n{SENTENCE * 20}\n\n" for number in range(6))
ITEMS = [
    Item("guide", "s", type="faq", title="Guide", text=GUIDE, summary="In short", tags=("x",)),
    Item("guide-two", "s", text="Short.", source="guide.md"),
    Item("7", "s", text="Seven.", numbered=True, kind=Kind.ENTITY, properties={"size": 3}),
    Item("shared", "s", text="In s."),
    Item("shared", "t", text="In t."),
    Item("only-t", "t", text="In t."),
]
HOSTILE_IDS = [
    "a/b",
    "/",
    "a//b/",
    "..",
    "../../etc/passwd",
    "a b",
    "100%",
    "%2F",
    "a%20b",
    "?page=2",
    "#x",
    "äöü ß",
    "汉字/🦊",
    "x/read",
    "x/history",
    "'; DROP TABLE item; --",
    "x" * 500,
]


@contextmanager
def open_kb(how: str, url: str = "memory:") -> Iterator[Kb]:
    with Engine(open_stores(url, {}), None, clock=lambda: NOW) as engine:
        engine.add(ITEMS)
        if how == "engine":
            yield engine
        else:
            with serving(engine) as address, Client(address) as client:
                yield client


@pytest.fixture(params=["engine", "client"])
def kb(request: pytest.FixtureRequest) -> Iterator[Kb]:
    with open_kb(request.param) as kb:
        yield kb


def read_all(kb: Kb, id: str, **options: Any) -> list[Any]:
    pages = [kb.read(id, **options)]
    while (number := pages[-1].next) is not None:
        pages.append(kb.read(id, page=number, **options))
    return pages


@pytest.mark.parametrize("max_tokens", [60, 500, 900])
def test_the_pages_together_are_the_text(kb: Kb, max_tokens: int) -> None:
    pages = read_all(kb, "guide", space="s", max_tokens=max_tokens)
    assert "".join(page.text for page in pages) == GUIDE
    assert all(page.tokens <= max_tokens for page in pages)
    assert [page.page for page in pages] == list(range(1, pages[0].pages + 1))
    first = pages[0]
    assert (first.space, first.id, first.title, first.type) == ("s", "guide", "Guide", "faq")
    assert (first.summary, first.tags, pages[-1].summary) == ("In short", ("x",), "")


def test_an_engine_and_a_client_return_equal_pages() -> None:
    with open_kb("engine") as engine, open_kb("client") as client:
        for item in ITEMS:
            for max_tokens in (50, None):
                options = {"space": item.space, "max_tokens": max_tokens}
                assert read_all(engine, item.id, **options) == read_all(client, item.id, **options)


def test_the_passage_of_a_hit_opens_its_page(kb: Kb) -> None:
    page = kb.read("guide", space="s", max_tokens=400, passage=7)
    assert 7 in page.passages and page.page > 1
    assert page == kb.read("guide", space="s", max_tokens=400, page=page.page)


def test_the_model_decides_the_tokens(kb: Kb) -> None:
    page = kb.read("guide", space="s", max_tokens=900, model="some-model", strict=True)
    fields = "summary: In short\ntags: x\n"
    assert page.tokens == len(page.text) + len(fields)
    exact = kb.read("guide", space="s", max_tokens=900, model="gpt-4o", page=2)
    assert exact.tokens == get_counter("gpt-4o").count(exact.text)


def test_pages_of_one_model_are_not_those_of_another(kb: Kb) -> None:
    kb.add(Item("plain", "s", text=GUIDE))
    models = ("gpt-4", "strict:other")
    pages = [kb.read("plain", max_tokens=900, model=name).pages for name in models]
    assert pages[0] < pages[1] == pytest.approx(len(GUIDE) / 900, rel=0.3)


def test_without_a_space_the_id_must_be_in_one_space_only(kb: Kb) -> None:
    assert kb.read("only-t").space == "t"
    assert kb.read("shared", space="s").text == "In s."
    with pytest.raises(Invalid, match="exists in the spaces 's', 't': pass one of them as space"):
        kb.read("shared")
    with pytest.raises(Invalid, match="exists in the spaces"):
        kb.read("shared", space=["s", "t"])
    assert kb.read("only-t", space=["s", "t"]).space == "t"


def test_an_unknown_id_names_similar_ones_of_the_same_space(kb: Kb) -> None:
    with pytest.raises(NotFound) as caught:
        kb.read("giude", space="s")
    assert str(caught.value) == "no item 'giude' in space 's'; similar: 'guide'"
    with pytest.raises(NotFound, match="no item 'only-t' in space 's'; similar: none"):
        kb.read("only-t", space="s")
    with pytest.raises(NotFound, match="no item 'onlyt' in 2 spaces; similar: 'only-t'"):
        kb.read("onlyt")


def test_similar_ids_are_looked_for_near_the_id_in_a_large_space() -> None:
    items = [
        Item(f"{letter}-{number:04}", "big", text="x") for letter in "az" for number in range(500)
    ]
    with Engine(open_stores("memory:", {}), None) as kb:
        kb.add([*items, Item("zebra-crossing", "big", text="x")])
        with pytest.raises(NotFound, match="similar: 'zebra-crossing'"):
            kb.read("zebra-crosing", space="big")


def test_an_unknown_space_is_an_error(kb: Kb) -> None:
    assert failure(lambda: kb.read("guide", space="nowhere")) == (NotFound, "unknown_space")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"page": 0}, "page"),
        ({"page": -1}, "page"),
        ({"page": 99}, "page must be an integer from 1 to 4, got 99"),
        ({"page": 1.5}, "page"),
        ({"page": True}, "page"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -5}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"passage": -1}, "passage"),
        ({"passage": 99}, r"passage must be an integer from 0 to \d+, got 99"),
        ({"passage": 1, "page": 2}, "page and passage exclude each other, got page=2"),
        ({"model": ""}, "model"),
    ],
    ids=repr,
)
def test_bad_arguments_are_named(kb: Kb, options: dict[str, Any], message: str) -> None:
    options = {"max_tokens": 600} | options
    with pytest.raises(Invalid, match=message):
        kb.read("guide", space="s", **options)


@pytest.mark.parametrize("id", ["", "a\nb", "\ud800", "x" * 501, None, 7])
def test_an_id_that_no_item_can_have_is_invalid_or_unknown(kb: Kb, id: Any) -> None:
    with pytest.raises((Invalid, NotFound)):
        kb.read(id, space="s")


def test_a_numbered_item_is_read_by_its_text(kb: Kb) -> None:
    page = kb.read("7", space="s")
    assert (page.id, page.numbered, page.properties, page.kind) == (
        "7",
        True,
        {"size": 3},
        "entity",
    )


def test_a_budget_of_one_token_has_one_token_per_page(kb: Kb) -> None:
    kb.add(Item("words", "s", text="one two\nthree"))
    pages = read_all(kb, "words", space="s", max_tokens=1)
    assert "".join(page.text for page in pages) == "one two\nthree"
    assert all(page.tokens == 1 for page in pages)
    (page,) = read_all(kb, "guide-two", space="s", max_tokens=1)
    assert page.note == "6 characters without a break left out: max_tokens=2 shows them"


def test_a_tiny_budget_of_a_long_item_is_refused_with_the_smallest_one(kb: Kb) -> None:
    with open_kb("engine") as engine:
        engine.add(Item("long", "s", text="harbor " * 100_000))
        with pytest.raises(Invalid, match="max_tokens must be an integer from 36 to 100,000,000"):
            engine.read("long", space="s", max_tokens=35)
        assert engine.read("long", space="s", max_tokens=36).tokens <= 36


@pytest.mark.parametrize("id", HOSTILE_IDS)
def test_hostile_ids_are_read_by_both_routes(id: str, tmp_path: Path) -> None:
    with Engine(open_stores(str(tmp_path / "k.db"), {}), None) as engine:
        engine.add([Item(id, "s", text=f"text of {id}"), Item("x", "s", text="another")])
        with serving(engine) as address, Client(address) as client:
            assert client.read(id).text == f"text of {id}"
            if ".." not in id.split("/") and not id.startswith("/"):
                path = f"{address}/api/items/{quote(id, safe='')}/read"
                response = httpx.get(path, params={"space": "s"})
                assert (response.status_code, response.json()["text"]) == (200, f"text of {id}")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[str, Keyring]]:
    keyring = Keyring(tmp_path / "keys.json")
    with Engine(open_stores("memory:", {}), None) as engine:
        engine.add(ITEMS)
        with serving(engine, keyring) as address:
            yield address, keyring


def create_client(
    guarded: tuple[str, Keyring], reads: tuple[str, ...], tier: str = "teams"
) -> Client:
    address, keyring = guarded
    _, secret = keyring.add("k", reads=reads, writes=(), role="viewer", tier=tier, now=NOW)
    return Client(address, key=secret)


def test_a_key_reads_its_spaces_only(guarded: tuple[str, Keyring]) -> None:
    with create_client(guarded, ("s",)) as client:
        assert client.read("shared").text == "In s."  # the other one is invisible
        assert failure(lambda: client.read("shared", space="t")) == (Forbidden, "forbidden")
        with pytest.raises(NotFound) as caught:
            client.read("only-t")
        assert str(caught.value) == "no item 'only-t' in space 's'; similar: none"


def test_a_tier_without_stored_items_may_not_read_them(guarded: tuple[str, Keyring]) -> None:
    with create_client(guarded, ("s",), "writer_pro") as client:
        assert failure(lambda: client.read("guide", space="s")) == (Forbidden, "tier")
        assert failure(lambda: client.read("guide")) == (Forbidden, "tier")


def test_a_missing_key_is_refused(guarded: tuple[str, Keyring]) -> None:
    create_client(guarded, ("s",)).close()
    with Client(guarded[0]) as client:
        assert failure(lambda: client.read("guide", space="s")) == (Forbidden, "key_required")


def test_a_response_that_is_no_page_is_reported() -> None:
    with open_kb("client") as kb:
        kb._transport._http.event_hooks = {"response": [_drop_pages]}  # type: ignore[union-attr]
        with pytest.raises(Unavailable, match="cannot read"):
            kb.read("guide", space="s")


def _drop_pages(response: httpx.Response) -> None:
    row = json.loads(response.read())
    row.pop("pages")
    response._content = json.dumps(row).encode()


def test_a_page_survives_a_change_of_the_item_elsewhere(kb: Kb) -> None:
    before = kb.read("guide", space="s", max_tokens=600, page=2)
    kb.add(replace(ITEMS[1], text="Changed."))
    assert kb.read("guide", space="s", max_tokens=600, page=2) == before
