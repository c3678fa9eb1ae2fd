"""Edges by name: incremental updates give the edges of a rebuild and of `build_name_edges`."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import knowloom
from knowloom.engine import Engine
from knowloom.linking import name_edges as batch
from knowloom.linking import name_index, name_rules, name_weights, rules, space_linker
from knowloom.linking.name_keys import KeyedText, blocking_key, locate_mentions
from knowloom.linking.name_labels import NAME, select_values
from knowloom.linking.name_rules import NAME_RULES
from knowloom.linking.unspaced_scripts import list_prefixes, match_names
from knowloom.model import AUTOMATIC, Edge, EdgeKey, Item
from knowloom.stores.sqlite.damage.page_checksums import register_vfs
from knowloom.text.item_names import collect_names
from knowloom.text.mentions import find_names

TYPES = tuple(rule.type for rule in NAME_RULES)
CAPS = {
    "MAX_HOLDERS": 2,
    "MAX_HEADING_HOLDERS": 1,
    "MAX_MENTIONS": 3,
    "MAX_LINKS_PER_NAME": 3,
    "MAX_ADDRESSEES": 2,
    "MAX_SHARING": 3,
    "MAX_TEXTS_PER_KEY": 2,
    "MAX_REFERRERS": 2,
}
EdgeRows = set[tuple[str, str, str, float, str]]


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with knowloom.open(
        "memory:" if request.param == "memory" else str(tmp_path / "knowloom.db"), embedder=None
    ) as opened:
        yield opened


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caps so low that a few items cross them all."""
    for cap, value in CAPS.items():
        for module in (batch, name_index, name_rules, name_weights):
            if hasattr(module, cap):
                monkeypatch.setattr(module, cap, value)
    monkeypatch.setattr(space_linker, "PAGE_ITEMS", 3)
    monkeypatch.setattr(space_linker, "PAGE_SIZE", 25)  # words and keys: some pages are cut short
    monkeypatch.setattr(space_linker, "ROUND_SIZE", 40)  # often two pages


def item(id: str, title: str = "", text: str = "", space: str = "s", **more: Any) -> Item:
    return Item(id, space, title=title, text=text or f"text of {id}", **more)


def row(edge: Edge) -> tuple[str, str, str, float, str]:
    return (edge.source, edge.target, edge.type, edge.weight, str(edge.properties["name"]))


def edge_rows(kb: Engine, space: str = "s") -> EdgeRows:
    return {row(edge) for edge in kb.edges([space], automatic=True) if edge.type in TYPES}


def expected_rows(kb: Engine, space: str = "s") -> EdgeRows:
    return {row(edge) for edge in expected_edges(kb, space)}


def expected_edges(kb: Engine, space: str = "s") -> list[Edge]:
    """Return the edges for all items at once, except between items with an explicit edge."""
    explicit = {(frozenset((edge.source, edge.target)), edge.type) for edge in kb.edges([space])}
    return [
        edge
        for edge in batch.build_name_edges(kb.items([space]))
        if (frozenset((edge.source, edge.target)), edge.type) not in explicit
    ]


def properties_by_key(edges: Iterable[Edge]) -> dict[EdgeKey, dict[str, Any]]:
    return {edge.key: dict(edge.properties) for edge in edges if edge.type in TYPES}


# What they are


def test_stored_texts_are_linked_to_an_item_that_comes_later(kb):
    kb.add(item("a", "Alpha page", "Ask Ada Lovelace about it."))
    assert edge_rows(kb) == set()
    kb.add(item("b", "Ada Lovelace", "x"))
    assert edge_rows(kb) == {("a", "b", "mentions", 1.0, "ada lovelace")}
    kb.add(item("c", "Other page", "Ada Lovelace's notes."))
    assert {(source, target) for source, target, *_ in edge_rows(kb)} == {("a", "b"), ("c", "b")}
    assert edge_rows(kb) == expected_rows(kb)
    kb.delete("b", space="s")
    assert edge_rows(kb) == expected_rows(kb) == set()  # "Ask Ada Lovelace" is another name


def test_a_longer_name_hides_a_shorter_one_when_it_comes_and_shows_it_when_it_goes(kb):
    kb.add([item("a", "Alpha page", "Moved to New York City."), item("ny", "New York", "x")])
    assert edge_rows(kb) == {("a", "ny", "mentions", 1.0, "new york")}
    kb.add(item("nyc", "New York City", "y"))
    assert edge_rows(kb) == {("a", "nyc", "mentions", 1.0, "new york city")}
    kb.add(item("nyc", "Gotham", "y"))
    assert edge_rows(kb) == {("a", "ny", "mentions", 1.0, "new york")}


def test_a_person_is_linked_without_middle_initials(kb):
    film = item("film", text="The film was directed by Nathan Juran.")
    kb.add([film, item("juran", "Nathan H. Juran", "An art director.")])
    (edge,) = [edge for edge in expected_edges(kb) if edge.type == "mentions"]
    assert (edge.source, edge.target, edge.properties["name"]) == ("film", "juran", "nathan juran")
    assert edge_rows(kb) == expected_rows(kb)
    kb.add(item("juran", "Nathan H. Juran Award", "An award."))
    assert "mentions" not in {row[2] for row in edge_rows(kb)}
    assert edge_rows(kb) == expected_rows(kb)


def test_markdown_links_and_foreign_keys_follow_what_they_point_to(kb):
    kb.add(
        [
            item("a", "", "See [the guide](guide.md).", source="docs/a.md"),
            item("t", "concert", "x", properties={"foreign_keys": ["singer.id"]}),
        ]
    )
    assert edge_rows(kb) == set()
    kb.add(
        [
            item("g", "", "guide", source="docs/guide.md"),
            item("u", "", "y", properties={"table": "singer"}),
        ]
    )
    assert edge_rows(kb) == {
        ("a", "g", "refers_to", 1.0, "docs/guide.md"),
        ("t", "u", "foreign_key", 1.0, "singer"),
    }
    kb.add(item("g", "", "guide", source="docs/other.md"))
    assert {row[2] for row in edge_rows(kb)} == {"foreign_key"}


def test_the_walk_follows_edges_by_name(kb):
    kb.add(
        [
            item("a", "Lothair II", "His mother was Ermengarde of Tours."),
            item("b", "Ermengarde of Tours", "She passed away in 851."),
        ]
    )
    assert [hit.item.id for hit in kb.context("mother of Lothair II", spaces=["s"]).hits] == [
        "a",
        "b",
    ]


def test_a_name_with_too_many_links_makes_none_until_they_are_fewer(kb, small):
    kb.add(
        [
            item("b1", "Field Manual"),
            item("b2", "Field Manual"),
            item("a1", "Alpha page", "See the Field Manual."),
        ]
    )
    assert {(source, target) for source, target, *_ in edge_rows(kb)} == {
        ("a1", "b1"),
        ("a1", "b2"),
    }
    kb.add(item("a2", "Other page", "See the Field Manual."))
    assert edge_rows(kb) == expected_rows(kb) == set()
    kb.delete("b2", space="s")
    assert {(source, target) for source, target, *_ in edge_rows(kb)} == {
        ("a1", "b1"),
        ("a2", "b1"),
    }
    assert edge_rows(kb) == expected_rows(kb)


def test_another_space_is_never_touched(kb):
    kb.add(
        [item("a", "Alpha page", "Ask Ada Lovelace.", "one"), item("b", "Ada Lovelace", "x", "two")]
    )
    assert edge_rows(kb, "one") == edge_rows(kb, "two") == set()
    kb.add(item("b", "Ada Lovelace", "x", "one"))
    assert len(edge_rows(kb, "one")) == 1 and edge_rows(kb, "two") == set()


def test_explicit_edges_override_and_forbid(kb):
    explicit = Edge("a", "b", "mentions", 0.1, "s")
    kb.add(
        [item("a", "Alpha page", "Ask Ada Lovelace."), item("b", "Ada Lovelace", "See Alpha page.")]
    )
    assert len(edge_rows(kb)) == 2
    kb.add([], [explicit])
    kb.add(item("c", "Ada Lovelace", "x"))
    kb.maintenance.relink()
    assert [
        edge for edge in kb.edges(automatic=None) if {edge.source, edge.target} == {"a", "b"}
    ] == [explicit]
    kb.add([], [Edge("b", "a", "mentions", 0, "s")])
    kb.delete_edges([explicit])
    assert all({row[0], row[1]} != {"a", "b"} for row in edge_rows(kb)) and edge_rows(
        kb
    ) == expected_rows(kb)
    kb.delete_edges([Edge("b", "a", "mentions", space="s")])
    assert {("a", "b"), ("b", "a")} <= {row[:2] for row in edge_rows(kb)}


def test_name_rules_can_be_selected(tmp_path):
    path = str(tmp_path / "knowloom.db")
    items = [
        item("a", "Alpha page", "Ask Ada Lovelace, then go to Rovers Hall."),
        item("b", "Ada Lovelace", "x"),
        item("c", "", "He went to Rovers Hall."),
    ]
    with knowloom.open(path, embedder=None) as kb:
        kb.add(items)
        assert {row[2] for row in edge_rows(kb)} == {"mentions", "shares"}
    for chosen in (["shares"], [], ["mentions", "refers_to"], ["shared_tag"]):
        with knowloom.open(path, embedder=None, links=chosen) as kb:
            kb.maintenance.link()
            assert {row[2] for row in edge_rows(kb)} == set(chosen) & {"mentions", "shares"}
    with knowloom.open(path, embedder=None) as kb:
        kb.add(item("d", "Rovers Hall", "y"))
        assert edge_rows(kb) == set() and kb.verify() == []
        kb.maintenance.relink()
    with knowloom.open(path, embedder=None, links=list(rules.RULES)) as kb:
        kb.maintenance.link()
        assert edge_rows(kb) == expected_rows(kb) != set()


# Bad input


def test_a_title_of_many_items_links_none(kb, monkeypatch):
    kb.add([item(f"j{number:05}", "John Smith", f"number {number}") for number in range(300)])
    looks: list[int] = []
    original = name_index.KeyedText.runs
    monkeypatch.setattr(
        name_index.KeyedText, "runs", lambda *args: looks.append(1) or original(*args)
    )
    kb.add([item("a", "Alpha page", "John Smith came."), item("j99999", "John Smith", "one more")])
    assert edge_rows(kb) == set() == expected_rows(kb) and len(looks) <= 2


def test_an_item_that_mentions_all_others_is_linked_to_the_first_ones(kb):
    others = [item(f"i{number:04}", f"Person Number{number}", "x") for number in range(600)]
    kb.add([*others, item("all", "Everybody", " ".join(other.title + "," for other in others))])
    assert len(edge_rows(kb)) == 500 and edge_rows(kb) == expected_rows(kb)


@pytest.mark.parametrize(
    "title",
    [
        "The",
        "X",
        "…",
        "___",
        "東京",
        "القاهرة",
        "word " * 2000,
        "w" * 10_000,
        "Ada's",
        "İstanbul",
        "ﬁnd_all",
        "A|B",
        "1990 1991",
    ],
)
def test_odd_titles_do_no_harm(kb, title):
    kb.add(
        [
            item("a", title, "x"),
            item(
                "b", "Beta page", f"In {title} I saw {title}, and {title.upper()} {title.lower()}"
            ),
        ]
    )
    kb.add(item("c", title, f"See [[{title[:200]}]] and [x]({title.strip()[:100]})"))
    assert edge_rows(kb) == expected_rows(kb) and kb.verify() == []


def test_texts_of_capitals_are_indexed_and_deleted(kb):
    kb.add(
        [
            item("a", "Alpha page", "Xyz Abc Def " * 8000),
            item("b", "", "x" * 200_000),
            item("c", "", "東京" * 20_000),
        ]
    )
    assert edge_rows(kb) == expected_rows(kb)
    kb.delete(["a", "b", "c"], space="s")
    assert edge_rows(kb) == set() and kb.verify() == []


@given(
    st.text(alphabet="Aab 's_1東|\n.", max_size=60),
    st.lists(st.text(alphabet="Aab 's_1東|", min_size=1, max_size=8), max_size=6),
)
@example("One's Song, the Ada's friend", ["One's Song", "Ada", "the Ada's friend"])
def test_keys_find_every_name_that_a_text_mentions(text, titles):
    item_names = {name for title in titles for name in collect_names(Item("x", "s", title=title))}
    keyed = KeyedText(text)
    mentions = find_names(text, item_names)
    assert {blocking_key(name) for name in mentions} <= set(keyed.keys)
    live = {blocking_key(name) for name in item_names}
    at_words, at_characters = keyed.positions(live)
    prefixes = {prefix for name in item_names for prefix in list_prefixes(name)}
    unspaced = match_names(
        {"x": keyed}, {"x": at_characters}, prefixes.intersection, item_names.intersection
    )["x"]
    runs = sorted([*keyed.runs(at_words, live), *unspaced.items()], key=lambda run: run[0])
    assert (
        set(mentions) <= {run for _, lengths in runs for run in lengths}
        and tuple(locate_mentions(runs, item_names)) == mentions
    )


# Step by step, at once, and after accidents

IDS = [f"i{number}" for number in range(8)]
TITLES = (
    "",
    "Ada",
    "New York",
    "New York City",
    "York Times",
    "The Ada",
    "Rovers Hall",
    "Ada Rovers Hall",
    "Ada H. Rovers",
    "New J. Q. York",
    "find_all",
    "docs/a.md",
    "The",
    "東京",
    "東京都",
)
WORDS = (
    "Ada",
    "Ada's",
    "New",
    "York",
    "City",
    "Times",
    "the",
    "Rovers",
    "Hall",
    "H.",
    "`find_all`",
    "and",
    ".",
    "\n\n",
    "[x](a.md)",
    "[y](a.md#new-york)",
    "[[Ada]]",
    "London",
    "東京",
    "都庁",
)
# Enough for a passage of its own, and without a capital.
FILLER = "the rest of this part is about nothing that has a name. " * 12
HEADINGS = (
    "",
    "# Ada",
    "## New York",
    "Rovers Hall\n---",
    "# 東京都",
    "# Usage",
    "## 1.2 Ada Times",
)


def long_text(sections: list[tuple[str, str, bool]]) -> str:
    return "\n\n".join(
        f"{heading}\n\n{words} {FILLER if is_long else ''}" for heading, words, is_long in sections
    )


_title = st.sampled_from(TITLES)
_words = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
_section = st.tuples(st.sampled_from(HEADINGS), _words, st.booleans())
_text = _words | st.lists(_section, min_size=1, max_size=5).map(long_text)
_more = st.fixed_dictionaries(
    {},
    optional={
        "source": st.sampled_from(["a.md", "docs/a.md", "docs/b.md"]),
        "properties": st.sampled_from(
            [
                {"aliases": ["Ada", "City"]},
                {"table": "singer"},
                {"foreign_keys": ["singer.id"]},
                {"foreign_keys": ["singer", "a.md"]},
                {"path": "docs/a.md", "symbol": "Ada.find_all"},
            ]
        ),
    },
)
_row = st.tuples(st.sampled_from(IDS), _title, _text, _more)
_add = st.tuples(
    st.just("add"), st.lists(_row, min_size=1, max_size=7, unique_by=lambda row: row[0])
)
_unlinked = st.tuples(
    st.just("interrupted"), st.lists(_row, min_size=1, max_size=3, unique_by=lambda row: row[0])
)
_delete = st.tuples(
    st.just("delete"), st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True)
)
_pair = st.tuples(
    st.sampled_from(IDS), st.sampled_from(IDS), st.sampled_from(TYPES), st.sampled_from([0.0, 0.5])
)
_link = st.tuples(
    st.just("link"), st.lists(_pair, min_size=1, max_size=2, unique_by=lambda row: row[:3])
)
_unlink = st.tuples(st.just("unlink"), st.lists(_pair, min_size=1, max_size=2))
_steps = st.lists(
    st.one_of(_add, _add, _add, _unlinked, _delete, _link, _unlink), min_size=1, max_size=10
)


class ProcessEnded(Exception):
    """The end of a process."""


def run_step(kb: Engine, step: tuple[str, Any], number: int) -> None:
    what, rows = step
    ids = {each.id for each in kb.items()}
    if what in ("add", "interrupted"):
        items = [
            item(id, title, f"{text} version {number}", **more) for id, title, text, more in rows
        ]
        kb.add([*items, item("other", "Ada", "New York", "elsewhere")], embed=False)
    elif what == "delete" and ids:
        kb.delete(rows, space="s")
    elif what == "link":
        kb.add(
            [],
            [
                Edge(source, target, type, weight, "s")
                for source, target, type, weight in rows
                if {source, target} <= ids
            ],
        )
    elif what == "unlink" and ids:
        stored = {edge.key for edge in kb.edges(["s"])}
        kb.delete_edges(
            [
                edge
                for edge in (
                    Edge(source, target, type, space="s") for source, target, type, _ in rows
                )
                if edge.key in stored
            ]
        )


def run_interrupted(kb: Engine, step: tuple[str, Any], number: int, writes: int) -> None:
    """Run the step in a process that ends after so many writes of its linker."""
    store: Any = kb._stores.items
    original, left = type(store).put_links, iter(range(writes))

    def put_links(self: Any, links: Any) -> bool:
        if next(left, None) is None:
            raise ProcessEnded
        return bool(original(self, links))

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(type(store), "put_links", put_links)
        with contextlib.suppress(ProcessEnded):
            run_step(kb, step, number)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=_steps, writes=st.integers(0, 6))
def test_incremental_linking_equals_a_rebuild_and_the_batch_function(store, small, steps, writes):
    folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    with (
        folder as path,
        knowloom.open(
            "memory:" if store == "memory" else f"{path}/knowloom.db", embedder=None
        ) as kb,
    ):
        for number, step in enumerate(steps):
            if step[0] == "interrupted":
                run_interrupted(kb, step, number, writes)
                continue
            run_step(kb, step, number)
            kb.maintenance.link()
            if "s" not in [info.name for info in kb.maintenance.stats().spaces]:
                continue
            assert edge_rows(kb) == expected_rows(kb)
            stored_edges = kb.edges(["s"], automatic=True)
            assert properties_by_key(stored_edges) == properties_by_key(expected_edges(kb))
            assert kb.verify() == []
        kb.maintenance.link()
        edges, stats = list(kb.edges(automatic=True)), kb.maintenance.stats()
        kb.maintenance.relink()
        assert list(kb.edges(automatic=True)) == edges and kb.maintenance.stats() == stats


def test_concurrent_writers_leave_correct_edges(tmp_path, small):
    path = str(tmp_path / "knowloom.db")
    with knowloom.open(path, embedder=None) as kb:
        kb.add(item("start", "Rovers Hall", "Ada"))

    def write(writer: int) -> None:
        with knowloom.open(path, embedder=None) as kb:
            for number in range(6):
                id = f"i{(number + writer) % 4}"
                title = TITLES[(number * 3 + writer) % len(TITLES)]
                kb.add(item(id, title, f"{TITLES[number]}, London {writer}"))
                if number == 3:
                    kb.delete("i1", space="s")

    threads = [Thread(target=write, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with knowloom.open(path, embedder=None) as kb:
        kb.maintenance.link()
        assert edge_rows(kb) == expected_rows(kb) != set() and kb.verify() == []


def test_verify_checks_the_name_index(tmp_path):
    path = str(tmp_path / "knowloom.db")
    with knowloom.open(path, embedder=None) as kb:
        kb.add([item("a", "Alpha page", "Ask Ada Lovelace."), item("b", "Ada Lovelace", "x")])
        store: Any = kb._stores.items
        assert select_values(NAME, store.labels_of("s", ["b"])["b"]) == ["ada lovelace"]
    connection = apsw.Connection(path, vfs=register_vfs())
    connection.execute("DELETE FROM name_index WHERE label = 'c:ada lovelace'")
    connection.execute("INSERT INTO name_index VALUES (1, 'c:nobody', 'a')")
    connection.close()
    with knowloom.open(path, embedder=None) as kb:
        assert kb.verify() == [
            "space 's': 1 labels of items are missing in the name index",
            "space 's': 1 entries of the name index belong to no item",
        ]
        kb.maintenance.relink()
        assert kb.verify() == [] and edge_rows(kb) == expected_rows(kb)


def test_exports_and_digests_exclude_edges_by_name(kb):
    items = [item("a", "Alpha page", "Ask Ada Lovelace."), item("b", "Ada Lovelace", "x")]
    kb.add(items)
    assert list(kb.edges()) == [] and {edge.origin for edge in kb.edges(automatic=True)} == {
        AUTOMATIC
    }
    with knowloom.open("memory:", embedder=None, links=[]) as unlinked:
        unlinked.add(list(kb.items()))
        assert (
            unlinked.maintenance.stats().spaces[0].digest == kb.maintenance.stats().spaces[0].digest
        )
