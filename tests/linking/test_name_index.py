"""Links by names, kept true: what is made step by step is what a rebuild makes and what `links` makes of all items at once."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
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
from knowloom.linking.name_keys import KeyedText, blocking_key, select_mentions
from knowloom.linking.name_labels import NAME, select_values
from knowloom.linking.name_rules import NAME_RULES
from knowloom.linking.unspaced_scripts import list_prefixes, match_names
from knowloom.model import AUTOMATIC, Edge, Item
from knowloom.text.item_names import collect_names
from knowloom.text.mentions import find_names

TYPES = tuple(rule.type for rule in NAME_RULES)
CAPS = {
    "MAX_HOLDERS": 2,
    "MAX_MENTIONS": 3,
    "MAX_LINKS_PER_NAME": 3,
    "MAX_ADDRESSEES": 2,
    "MAX_SHARING": 3,
    "MAX_TEXTS_PER_KEY": 2,
    "MAX_REFERRERS": 2,
}
Made = set[tuple[str, str, str, float, str]]


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


def made(kb: Engine, space: str = "s") -> Made:
    return {row(edge) for edge in kb.edges([space], automatic=True) if edge.type in TYPES}


def expected(kb: Engine, space: str = "s") -> Made:
    """What the batch function says, without the pairs that people have settled."""
    people = {(frozenset((edge.source, edge.target)), edge.type) for edge in kb.edges([space])}
    return {
        row(edge)
        for edge in batch.build_name_edges(kb.items([space]))
        if (frozenset((edge.source, edge.target)), edge.type) not in people
    }


# What they are


def test_an_item_that_comes_later_is_found_by_texts_already_stored(kb):
    kb.add(item("a", "Alpha page", "Ask Ada Lovelace about it."))
    assert made(kb) == set()
    kb.add(item("b", "Ada Lovelace", "x"))
    assert made(kb) == {("a", "b", "mentions", 1.0, "ada lovelace")}
    kb.add(item("c", "Other page", "Ada Lovelace's notes."))
    assert {(source, target) for source, target, *_ in made(kb)} == {("a", "b"), ("c", "b")}
    assert made(kb) == expected(kb)
    kb.delete("b", space="s")
    assert made(kb) == expected(kb) == set()  # "Ask Ada Lovelace" is another name


def test_a_longer_name_hides_a_shorter_one_when_it_comes_and_shows_it_when_it_goes(kb):
    kb.add([item("a", "Alpha page", "Moved to New York City."), item("ny", "New York", "x")])
    assert made(kb) == {("a", "ny", "mentions", 1.0, "new york")}
    kb.add(item("nyc", "New York City", "y"))
    assert made(kb) == {("a", "nyc", "mentions", 1.0, "new york city")}
    kb.add(item("nyc", "Gotham", "y"))
    assert made(kb) == {("a", "ny", "mentions", 1.0, "new york")}


def test_markdown_links_and_foreign_keys_follow_what_they_point_to(kb):
    kb.add(
        [
            item("a", "", "See [the guide](guide.md).", source="docs/a.md"),
            item("t", "concert", "x", properties={"foreign_keys": ["singer.id"]}),
        ]
    )
    assert made(kb) == set()
    kb.add(
        [
            item("g", "", "guide", source="docs/guide.md"),
            item("u", "", "y", properties={"table": "singer"}),
        ]
    )
    assert made(kb) == {
        ("a", "g", "refers_to", 1.0, "docs/guide.md"),
        ("t", "u", "foreign_key", 1.0, "singer"),
    }
    kb.add(item("g", "", "guide", source="docs/other.md"))
    assert {row[2] for row in made(kb)} == {"foreign_key"}


def test_the_walk_follows_them_without_being_told(kb):
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


def test_a_name_that_would_make_too_many_links_makes_none_until_they_are_fewer(kb, small):
    kb.add(
        [
            item("b1", "Field Manual"),
            item("b2", "Field Manual"),
            item("a1", "Alpha page", "See the Field Manual."),
        ]
    )
    assert {(source, target) for source, target, *_ in made(kb)} == {("a1", "b1"), ("a1", "b2")}
    kb.add(item("a2", "Other page", "See the Field Manual."))
    assert made(kb) == expected(kb) == set()
    kb.delete("b2", space="s")
    assert {(source, target) for source, target, *_ in made(kb)} == {("a1", "b1"), ("a2", "b1")}
    assert made(kb) == expected(kb)


def test_another_space_is_never_touched(kb):
    kb.add(
        [item("a", "Alpha page", "Ask Ada Lovelace.", "one"), item("b", "Ada Lovelace", "x", "two")]
    )
    assert made(kb, "one") == made(kb, "two") == set()
    kb.add(item("b", "Ada Lovelace", "x", "one"))
    assert len(made(kb, "one")) == 1 and made(kb, "two") == set()


def test_people_overrule_and_forbid(kb):
    mine = Edge("a", "b", "mentions", 0.1, "s")
    kb.add(
        [item("a", "Alpha page", "Ask Ada Lovelace."), item("b", "Ada Lovelace", "See Alpha page.")]
    )
    assert len(made(kb)) == 2
    kb.add([], [mine])
    kb.add(item("c", "Ada Lovelace", "x"))
    kb.maintenance.relink()
    assert [
        edge for edge in kb.edges(automatic=None) if {edge.source, edge.target} == {"a", "b"}
    ] == [mine]
    kb.add([], [Edge("b", "a", "mentions", 0, "s")])
    kb.delete_edges([mine])
    assert all({row[0], row[1]} != {"a", "b"} for row in made(kb)) and made(kb) == expected(kb)
    kb.delete_edges([Edge("b", "a", "mentions", space="s")])
    assert {("a", "b"), ("b", "a")} <= {row[:2] for row in made(kb)}


def test_they_can_be_chosen(tmp_path):
    path = str(tmp_path / "knowloom.db")
    items = [
        item("a", "Alpha page", "Ask Ada Lovelace, then go to Rovers Hall."),
        item("b", "Ada Lovelace", "x"),
        item("c", "", "He went to Rovers Hall."),
    ]
    with knowloom.open(path, embedder=None) as kb:
        kb.add(items)
        assert {row[2] for row in made(kb)} == {"mentions", "shares"}
    for chosen in (["shares"], [], ["mentions", "refers_to"], ["shared_tag"]):
        with knowloom.open(path, embedder=None, links=chosen) as kb:
            kb.maintenance.link()
            assert {row[2] for row in made(kb)} == set(chosen) & {"mentions", "shares"}
    with knowloom.open(path, embedder=None) as kb:
        kb.add(item("d", "Rovers Hall", "y"))
        assert made(kb) == set() and kb.verify() == []
        kb.maintenance.relink()
    with knowloom.open(path, embedder=None, links=list(rules.RULES)) as kb:
        kb.maintenance.link()
        assert made(kb) == expected(kb) != set()


# Bad input


def test_ten_thousand_items_of_one_title_link_nobody(kb, monkeypatch):
    kb.add([item(f"j{number:05}", "John Smith", f"number {number}") for number in range(300)])
    looks: list[int] = []
    honest = name_index.KeyedText.runs
    monkeypatch.setattr(
        name_index.KeyedText, "runs", lambda *args: looks.append(1) or honest(*args)
    )
    kb.add([item("a", "Alpha page", "John Smith came."), item("j99999", "John Smith", "one more")])
    assert made(kb) == set() == expected(kb) and len(looks) <= 2


def test_an_item_that_names_every_other_is_linked_to_the_first_few(kb):
    others = [item(f"i{number:04}", f"Person Number{number}", "x") for number in range(600)]
    kb.add([*others, item("all", "Everybody", " ".join(one.title + "," for one in others))])
    assert len(made(kb)) == 500 and made(kb) == expected(kb)


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
    assert made(kb) == expected(kb) and kb.verify() == []


def test_a_text_of_capitals_is_entered_and_forgotten(kb):
    kb.add(
        [
            item("a", "Alpha page", "Xyz Abc Def " * 8000),
            item("b", "", "x" * 200_000),
            item("c", "", "東京" * 20_000),
        ]
    )
    assert made(kb) == expected(kb)
    kb.delete(["a", "b", "c"], space="s")
    assert made(kb) == set() and kb.verify() == []


@given(
    st.text(alphabet="Aab 's_1東|\n.", max_size=60),
    st.lists(st.text(alphabet="Aab 's_1東|", min_size=1, max_size=8), max_size=6),
)
@example("One's Song, the Ada's friend", ["One's Song", "Ada", "the Ada's friend"])
def test_keys_find_every_name_that_a_text_mentions(text, titles):
    known = {name for title in titles for name in collect_names(Item("x", "s", title=title))}
    read = KeyedText(text)
    found = find_names(text, known)
    assert {blocking_key(name) for name in found} <= set(read.keys)
    live = {blocking_key(name) for name in known}
    at_words, at_signs = read.positions(live)
    begun = {one for name in known for one in list_prefixes(name)}
    signs = match_names({"x": read}, {"x": at_signs}, begun.intersection, known.intersection)["x"]
    runs = sorted([*read.runs(at_words, live), *signs.items()], key=lambda run: run[0])
    assert (
        set(found) <= {run for _, lengths in runs for run in lengths}
        and tuple(select_mentions(runs, known)) == found
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
    "`find_all`",
    "and",
    ".",
    "\n\n",
    "[x](a.md)",
    "[[Ada]]",
    "London",
    "東京",
    "都庁",
)
_title = st.sampled_from(TITLES)
_text = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
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


class Ended(Exception):
    """Stands for the end of a process."""


def do(kb: Engine, step: tuple[str, Any], number: int) -> None:
    what, rows = step
    known = {one.id for one in kb.items()}
    if what in ("add", "interrupted"):
        items = [
            item(id, title, f"{text} version {number}", **more) for id, title, text, more in rows
        ]
        kb.add([*items, item("other", "Ada", "New York", "elsewhere")], embed=False)
    elif what == "delete" and known:
        kb.delete(rows, space="s")
    elif what == "link":
        kb.add(
            [],
            [
                Edge(source, target, type, weight, "s")
                for source, target, type, weight in rows
                if {source, target} <= known
            ],
        )
    elif what == "unlink" and known:
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


def ended_after(kb: Engine, step: tuple[str, Any], number: int, writes: int) -> None:
    """The step, by a process that ends after so many writes of its linker."""
    store: Any = kb._stores.items
    honest, left = type(store).put_links, iter(range(writes))

    def put_links(self: Any, links: Any) -> bool:
        if next(left, None) is None:
            raise Ended
        return bool(honest(self, links))

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(type(store), "put_links", put_links)
        with contextlib.suppress(Ended):
            do(kb, step, number)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=_steps, writes=st.integers(0, 6))
def test_step_by_step_gives_what_a_rebuild_and_the_batch_function_give(store, small, steps, writes):
    folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    with (
        folder as path,
        knowloom.open(
            "memory:" if store == "memory" else f"{path}/knowloom.db", embedder=None
        ) as kb,
    ):
        for number, step in enumerate(steps):
            if step[0] == "interrupted":
                ended_after(kb, step, number, writes)
                continue
            do(kb, step, number)
            kb.maintenance.link()
            if "s" not in [info.name for info in kb.maintenance.stats().spaces]:
                continue
            assert made(kb) == expected(kb)
            assert kb.verify() == []
        kb.maintenance.link()
        found, stats = list(kb.edges(automatic=True)), kb.maintenance.stats()
        kb.maintenance.relink()
        assert list(kb.edges(automatic=True)) == found and kb.maintenance.stats() == stats


def test_writers_at_the_same_time_leave_true_links(tmp_path, small):
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
        assert made(kb) == expected(kb) != set() and kb.verify() == []


def test_verify_proves_the_index_of_names(tmp_path):
    path = str(tmp_path / "knowloom.db")
    with knowloom.open(path, embedder=None) as kb:
        kb.add([item("a", "Alpha page", "Ask Ada Lovelace."), item("b", "Ada Lovelace", "x")])
        store: Any = kb._stores.items
        assert select_values(NAME, store.labels_of("s", ["b"])["b"]) == ["ada lovelace"]
    connection = apsw.Connection(path)
    connection.execute("DELETE FROM name_index WHERE label = 'c:ada lovelace'")
    connection.execute("INSERT INTO name_index VALUES (1, 'c:nobody', 'a')")
    connection.close()
    with knowloom.open(path, embedder=None) as kb:
        assert kb.verify() == [
            "space 's': 1 labels of items are missing in the name index",
            "space 's': 1 entries of the name index belong to no item",
        ]
        kb.maintenance.relink()
        assert kb.verify() == [] and made(kb) == expected(kb)


def test_an_export_has_none_of_them_and_the_digest_neither(kb):
    items = [item("a", "Alpha page", "Ask Ada Lovelace."), item("b", "Ada Lovelace", "x")]
    kb.add(items)
    assert list(kb.edges()) == [] and {edge.origin for edge in kb.edges(automatic=True)} == {
        AUTOMATIC
    }
    with knowloom.open("memory:", embedder=None, links=[]) as plain:
        plain.add(list(kb.items()))
        assert plain.maintenance.stats().spaces[0].digest == kb.maintenance.stats().spaces[0].digest
