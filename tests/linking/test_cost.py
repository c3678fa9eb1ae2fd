"""Bounds on the cost of a change: texts read again, lookups, and writes that wait for the disk."""

from __future__ import annotations

import random
import struct
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Item
from knowloom.caching import MemoDict
from knowloom.linking import space_linker
from knowloom.linking.name_keys import KeyedText
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite import postings as words
from knowloom.stores.sqlite import store as sqlite
from knowloom.text.item_names import collect_names
from knowloom.text.mentions import MAX_PREFILTERED, find_names, fold_text, may_mention

places = st.integers(0, 65_535) | st.integers(0, 40)
postings = st.dictionaries(places, st.integers(1, 255), max_size=30)
changes = st.dictionaries(places, st.sampled_from([0, 0, 1, 3, 999]), min_size=1, max_size=6)


def pack_postings(counts: dict[int, int]) -> bytes:
    counted = sorted(
        (place, min(count, words.words.MAX_TERM_FREQUENCY))
        for place, count in counts.items()
        if count
    )
    return struct.pack(f"<{len(counted)}H", *(place for place, _ in counted)) + bytes(
        count for _, count in counted
    )


@given(postings, changes)
@settings(max_examples=500, deadline=None)
def test_a_posting_list_is_updated_like_a_dictionary(
    stored: dict[int, int], changed: dict[int, int]
) -> None:
    old = pack_postings(stored)
    before = dict(
        zip(
            struct.unpack(f"<{len(old) // 3}H", old[: len(old) // 3 * 2]),
            old[len(old) // 3 * 2 :],
            strict=True,
        )
    )
    assert words._update(old, dict(sorted(changed.items()))) == pack_postings({**before, **changed})


PARTS = [
    "New",
    "York",
    "Office",
    "office",
    "ΑΣ",
    "ΑΣ.Β",
    "Straße",
    "STRASSE",
    "İstanbul",
    "Ada's",
    "ﬁsh",
    "東京",
    "東",
    "ที่",
    "the",
    ",",
    "\n\n",
    "x_y",
]
texts_of_parts = st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map(" ".join)


@given(texts_of_parts, texts_of_parts)
@settings(max_examples=500, deadline=None)
def test_a_text_that_mentions_a_name_has_all_its_words(text: str, title: str) -> None:
    for name in collect_names(Item("a", "s", title=title)):
        if find_names(text, {name}):
            assert may_mention(fold_text(text), [name])


def test_very_many_names_are_not_searched_individually():
    assert may_mention("", ["absent"] * (MAX_PREFILTERED + 1))
    assert not may_mention("", ["absent"] * MAX_PREFILTERED)


def test_unspaced_texts_do_not_look_up_every_run_of_characters(monkeypatch):
    characters = "กขคงจฉชซญฎฏฐ"
    rng = random.Random(1)
    queries: list[str] = []
    original = MemoryStore.label_holders
    monkeypatch.setattr(
        MemoryStore,
        "label_holders",
        lambda self, space, labels, limit: (
            queries.extend(labels) or original(self, space, labels, limit)
        ),
    )
    titles = {"".join(rng.choices(characters, k=5)) for _ in range(200)}
    texts = ["".join(rng.choices(characters, k=400)) for _ in range(20)] + [
        f"กขค{title}" for title in titles
    ]
    with knowloom.open("memory:", embedder=None, links=["mentions"]) as kb:
        kb.add([Item(f"t{n}", "s", text=text) for n, text in enumerate(texts)])
        queries.clear()
        kb.add([Item(title, "s", title=title, text="-") for title in titles])
        assert {edge.target for edge in kb.edges(["s"], automatic=True)} == titles
        assert len(queries) < 3 * sum(map(len, texts))


def test_an_unspaced_text_is_read_again_only_if_it_has_the_characters_of_a_new_name_in_a_row(
    monkeypatch,
):
    read: list[str] = []
    monkeypatch.setattr(
        space_linker,
        "KeyedText",
        lambda text, passages: read.append(text) or KeyedText(text, passages),
    )
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(
            [
                Item("a", "s", text="他在中国银行工作"),
                Item("b", "s", text="中国有很多行业和银器"),
                Item("c", "s", text="中国「银行」"),
            ]
        )
        read.clear()
        kb.add(Item("new", "s", title="中国银行", text="-"))
        assert sorted(read) == sorted(["-", "他在中国银行工作", "中国「银行」"])
        assert {
            edge.source for edge in kb.edges(["s"], automatic=True) if edge.target == "new"
        } == {
            "a",
            "c",
        }


def test_a_page_of_long_texts_has_fewer_items(monkeypatch):
    pages: list[int] = []
    original = MemoryStore.put_links
    monkeypatch.setattr(
        MemoryStore,
        "put_links",
        lambda self, links: pages.append(len(links.labels)) or original(self, links),
    )
    monkeypatch.setattr(space_linker, "PAGE_SIZE", 100)
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add([Item(f"t{n}", "s", title=f"Page {n}", text="東京都庁舎" * 10) for n in range(9)])
        assert max(pages) == 2 and sum(pages) == 9


@pytest.mark.parametrize("url", ["memory:", "file"])
def test_a_new_name_rereads_only_texts_that_may_mention_it(url, tmp_path, monkeypatch):
    read: list[str] = []
    monkeypatch.setattr(
        space_linker,
        "KeyedText",
        lambda text, passages: read.append(text) or KeyedText(text, passages),
    )
    with knowloom.open(
        "memory:" if url == "memory:" else str(tmp_path / "k.db"), embedder=None
    ) as kb:
        kb.add(
            [
                Item(
                    f"t{n}",
                    "s",
                    title=f"Page {n}",
                    text=f"The New York {'Office' if n < 3 else 'Desk'} has number {n}.",
                )
                for n in range(40)
            ]
        )
        read.clear()
        kb.add(Item("new", "s", title="New York Office", text="Here."))
        assert sorted(read) == [
            "Here.",
            *sorted(f"The New York Office has number {n}." for n in range(3)),
        ]
        linked = {edge.source for edge in kb.edges(["s"], automatic=True) if edge.target == "new"}
        assert linked == {"t0", "t1", "t2"}
        read.clear()
        kb.delete("new", space="s")
        assert len(read) == 3
        assert not [edge for edge in kb.edges(["s"], automatic=True) if edge.target == "new"]


def test_edges_are_computed_once_when_a_mentioned_name_is_deleted(monkeypatch):
    renewed: list[str] = []
    original = space_linker.SpaceLinker._compute_name_edges
    monkeypatch.setattr(
        space_linker.SpaceLinker,
        "_compute_name_edges",
        lambda self, page: renewed.extend(page) or original(self, page),
    )
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(
            [
                Item("desk", "s", title="Payments Desk", text="Open."),
                *(Item(f"t{n}", "s", text=f"Ask the Payments Desk, line {n}.") for n in range(3)),
            ]
        )
        renewed.clear()
        kb.delete("desk", space="s")
        assert sorted(renewed) == ["t0", "t1", "t2"]


def test_writes_of_items_wait_for_the_disk_and_writes_of_edges_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[int] = []
    real = sqlite.write_transaction

    @contextmanager
    def watched(connection: Any) -> Any:
        levels.append(connection.execute("PRAGMA synchronous").fetchall()[0][0])
        with real(connection):
            yield

    monkeypatch.setattr(sqlite, "write_transaction", watched)
    with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
        kb.add(Item("a", "s", title="Alpha Desk", text="x"))
        kb.add(Item("b", "s", title="Beta", text="Ask the Alpha Desk."))
    full, normal = 2, 1
    assert levels[0] == full
    assert normal in levels
    assert levels.count(full) == 2 + 1  # two writes, and the choice of rules at first


def test_edges_of_a_page_are_looked_up_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries: list[str] = []
    real = sqlite.connect

    def watched(path: str, cache_kb: int) -> Any:
        connection = real(path, cache_kb)
        connection.exec_trace = lambda _, sql, __: queries.append(sql) or True
        return connection

    monkeypatch.setattr(sqlite, "connect", watched)

    def lookups(count: int) -> int:
        with knowloom.open(str(tmp_path / f"{count}.db"), embedder=None, links=["mentions"]) as kb:
            kb.add(
                [
                    Item(f"t{n}", "s", title=f"Zorro Desk {n}", text=f"Ask the Zorro Desk {n + 1}.")
                    for n in range(count)
                ],
                embed=False,
            )
            queries.clear()
            kb.maintenance.relink()
            assert kb.maintenance.stats().spaces[0].links == count - 1
            return sum(sql.lstrip().startswith("SELECT") for sql in queries)

    assert 0 < lookups(10) == lookups(40)


def test_a_memo_dict_computes_once_and_is_emptied_when_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: list[str] = []
    table = MemoDict("test", lambda text: computed.append(text) or len(text), bound=2)
    assert [table[word] for word in ("a", "bb", "a", "ccc", "a")] == [1, 2, 1, 3, 1]
    assert computed == ["a", "bb", "ccc", "a"] and len(table) <= 2
