"""Automatic edges by tags and vectors, explicit edges that override them, and interrupted runs."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import codec
from knowloom.cli.main import cli
from knowloom.engine import Engine
from knowloom.errors import Conflict, Invalid
from knowloom.linking import linker, nearest_rules, rules, similar_rule, space_linker
from knowloom.model import AUTOMATIC, Edge, Item
from knowloom.stores.memory.search_index import cosine_similarity
from knowloom.stores.memory.store import MemoryStore
from knowloom.stores.sqlite.store import SqliteStore
from knowloom.testing import LinkStoreContract, NearestItemsContract
from knowloom.testing.knowledge import batch
from knowloom.testing.nearest import mutual_pairs
from knowloom.vectors import nearest_lists


class TestMemory(LinkStoreContract, NearestItemsContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore.open()


class TestSqlite(LinkStoreContract, NearestItemsContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        opened = SqliteStore.open(str(tmp_path / "knowloom.db"))
        yield opened
        opened.close()


Keys = set[tuple[str, str, str, float]]
TAGS = ("billing", "refund", "vip", "urgent", "eu", "2024")
ANGLES = (0.0, 0.1, 0.3, 0.5, 0.55, 0.8, 1.5)  # cosines above and below .85
IDS = [f"i{number}" for number in range(9)]


def item(id: str, tags: Sequence[str] = (), space: str = "s", **fields: Any) -> Item:
    return Item(id, space, text=fields.pop("text", f"text of {id}"), tags=tuple(tags), **fields)


def vector(angle: float) -> list[float]:
    return [float(np.cos(angle)), float(np.sin(angle))]


def edge_rows(kb: Engine, space: str = "s") -> Keys:
    return {
        (edge.source, edge.target, edge.type, round(edge.weight, 2))
        for edge in kb.edges([space], automatic=True)
    }


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with knowloom.open(
        "memory:" if request.param == "memory" else str(tmp_path / "knowloom.db"), embedder=None
    ) as opened:
        yield opened


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caps so low that a few items cross them all."""
    monkeypatch.setattr(space_linker, "COMMON_LABEL", 3)
    monkeypatch.setattr(nearest_rules, "MAX_NEAREST", 2)
    monkeypatch.setattr(nearest_lists, "NEAREST", 2)
    monkeypatch.setattr(nearest_lists, "MAX_LISTED", 3)
    monkeypatch.setattr(space_linker, "PAGE_ITEMS", 3)


def test_each_shared_tag_of_two_or_more_weighs_a_fifth(kb):
    kb.add(
        [
            item("b", TAGS[:2]),
            item("a", TAGS[1::-1]),
            item("c", TAGS[1:3]),
            item("d", TAGS),
            item("e", TAGS),
        ]
    )
    assert {(s, t): w for s, t, type, w in edge_rows(kb) if type == "shared_tag"} == {
        ("a", "b"): 0.4,
        ("a", "d"): 0.4,
        ("a", "e"): 0.4,
        ("b", "d"): 0.4,
        ("b", "e"): 0.4,
        ("c", "d"): 0.4,
        ("c", "e"): 0.4,
        ("d", "e"): 1.0,
    }


def test_similar_items_are_linked_by_their_cosine(kb):
    kb.add([item("b"), item("a"), item("c")], vectors=[vector(0), vector(0.2), vector(0.7)])
    assert edge_rows(kb) == {("a", "b", "similar", 0.98), ("a", "c", "similar", 0.88)}


def test_edges_follow_every_change(kb):
    kb.add([item("a", TAGS[:3]), item("b", TAGS[:3])])
    assert edge_rows(kb) == {("a", "b", "shared_tag", 0.6)}
    kb.add(item("b", TAGS[:2]))
    assert edge_rows(kb) == {("a", "b", "shared_tag", 0.4)}
    kb.add(item("b", TAGS[:1]))
    assert edge_rows(kb) == set()
    kb.add(item("b", TAGS))
    kb.delete("a", space="s")
    assert edge_rows(kb) == set() and kb.maintenance.stats().spaces[0].links == 0


def test_another_space_is_never_touched(kb):
    kb.add([item("a", TAGS, "one"), item("b", TAGS, "two"), item("c", TAGS, "two")])
    before = list(kb.edges(automatic=None))
    assert [(edge.space, edge.source, edge.target) for edge in before] == [("two", "b", "c")]
    kb.add([item("b", TAGS, "one"), item("c", TAGS, "one")])
    kb.delete(["a", "b"], space="one")
    assert list(kb.edges(["two"], automatic=None)) == before


def test_an_explicit_edge_wins_and_stays_when_tags_change(kb):
    explicit = Edge("a", "b", "shared_tag", 0.1, "s", properties={"why": "I said so"})
    kb.add([item("a", TAGS), item("b", TAGS)])
    kb.add([], [explicit])
    kb.add(item("b"))
    kb.maintenance.relink()
    assert list(kb.edges(automatic=None)) == [explicit]
    kb.add(item("b", TAGS))
    assert list(kb.edges(automatic=None)) == [explicit]
    kb.delete_edges([explicit])
    assert edge_rows(kb) == {("a", "b", "shared_tag", 1.0)}


def test_an_explicit_edge_in_the_other_direction_wins_too(kb):
    kb.add([item("a", TAGS), item("b", TAGS)], [Edge("b", "a", "shared_tag", 0.5, "s")])
    assert edge_rows(kb) == set()
    kb.delete_edges([Edge("b", "a", "shared_tag", space="s")])
    assert edge_rows(kb) == {("a", "b", "shared_tag", 1.0)}


def test_a_forbidden_edge_is_deleted_and_not_followed(kb):
    kb.add([item("a", TAGS, text="zebra"), item("b", TAGS, text="other")])
    assert [hit.item.id for hit in kb.context("zebra", spaces=["s"]).hits] == ["a", "b"]
    kb.add([], [Edge("b", "a", "shared_tag", 0, "s")])
    kb.add(item("b", TAGS[:4], text="other"))
    kb.maintenance.relink()
    assert edge_rows(kb) == set()
    assert [hit.item.id for hit in kb.context("zebra", spaces=["s"]).hits] == ["a"]


def test_an_automatic_edge_can_be_neither_added_nor_deleted(kb):
    kb.add([item("a", TAGS), item("b", TAGS)])
    (link,) = kb.edges(automatic=True)
    with pytest.raises(Invalid, match="automatic edges cannot be added"):
        kb.add([], [link])
    with pytest.raises(Invalid, match="forbid it"):
        kb.delete_edges([link])


def test_automatic_edges_change_the_digest_of_a_context_but_not_of_a_space(kb):
    kb.add([item("a", TAGS), item("b", TAGS)], embed=False)
    with knowloom.open("memory:", embedder=None, links=[]) as unlinked:
        unlinked.add([item(each.id, each.tags, created_at=each.created_at) for each in kb.items()])
        ours, theirs = kb.maintenance.stats().spaces[0], unlinked.maintenance.stats().spaces[0]
        assert (ours.digest, ours.edges, ours.links, theirs.links) == (theirs.digest, 0, 1, 0)
        now = next(iter(kb.items())).created_at
        digests = [
            engine.context("text", spaces=["s"], now=now).digest for engine in (kb, unlinked)
        ]
    assert digests[0] != digests[1]
    assert [change.action for change in kb._stores.items.changes("s")] == ["add", "add"]


def test_rules_can_be_selected_and_are_stored(tmp_path):
    path = str(tmp_path / "knowloom.db")
    with knowloom.open(path, embedder=None) as kb:
        kb.add([item("a", TAGS), item("b", TAGS)], vectors=[vector(0), vector(0)])
        assert {type for _, _, type, _ in edge_rows(kb)} == {"shared_tag", "similar"}
    for chosen in (["similar"], [], ["shared_tag"]):
        with knowloom.open(path, embedder=None, links=chosen) as kb:
            kb.maintenance.link()
            assert sorted({type for _, _, type, _ in edge_rows(kb)}) == chosen
    with knowloom.open(path, embedder=None) as kb:
        kb.add(item("c", TAGS))
        assert {type for _, _, type, _ in edge_rows(kb)} == {"shared_tag"}
        assert kb.verify() == []
    with pytest.raises(Invalid, match="unknown link rule 'similr'"):
        knowloom.open(path, embedder=None, links=["similr"])
    with pytest.raises(Invalid, match="must be a list of rules"):
        knowloom.open(path, embedder=None, links="similar")


def test_an_item_is_linked_to_the_nearest_few_before_it(kb, monkeypatch):
    monkeypatch.setattr(nearest_rules, "MAX_NEAREST", 2)
    kb.add(
        [item(id, TAGS[:count]) for id, count in (("a", 5), ("b", 2), ("c", 4), ("d", 3))]
        + [item("z", TAGS[:5])]
    )
    assert {(source, weight) for source, target, _, weight in edge_rows(kb) if target == "z"} == {
        ("a", 1.0),
        ("c", 0.8),
    }
    kb.delete("a", space="s")
    assert {(source, weight) for source, target, _, weight in edge_rows(kb) if target == "z"} == {
        ("c", 0.8),
        ("d", 0.6),
    }


def test_ties_go_to_the_closest_ids_before(kb, monkeypatch):
    monkeypatch.setattr(nearest_rules, "MAX_NEAREST", 2)
    kb.add([item(id, TAGS) for id in "eadcb"])
    assert {(source, target) for source, target, _, _ in edge_rows(kb)} == {
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
        ("b", "d"),
        ("c", "d"),
        ("c", "e"),
        ("d", "e"),
    }


def test_a_tag_of_too_many_items_links_none_until_it_is_rarer(kb, small):
    kb.add([item(id, TAGS[:2]) for id in "abc"])
    assert len(edge_rows(kb)) == 3
    kb.add(item("d", TAGS[:1]))
    assert edge_rows(kb) == set()
    kb.add(item("d", TAGS[1:2]))
    assert edge_rows(kb) == set()
    kb.delete("d", space="s")
    assert len(edge_rows(kb)) == 3


def test_links_wait_for_vectors_that_come_later(kb):
    kb.add([item("a"), item("b")], embed=False)
    assert edge_rows(kb) == set()
    kb._stores.vectors.put_vectors(
        {("s", "a"): np.array(vector(0), np.float32), ("s", "b"): np.array(vector(0), np.float32)},
        "given:2",
    )
    assert kb.maintenance.link() == 2
    assert edge_rows(kb) == {("a", "b", "similar", 1.0)}
    assert kb.maintenance.link() == 0


def test_the_next_write_catches_up_after_an_interruption(kb, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(linker.Linker, "catch_up", lambda *_: ())  # the process ends after the write
        kb.add([item("a", TAGS), item("b", TAGS), item("c", TAGS)])
        kb.delete("b", space="s")
    assert edge_rows(kb) == set()
    kb.add(item("d"))
    assert edge_rows(kb) == {("a", "c", "shared_tag", 1.0)}


def test_loading_again_does_not_restore_a_forbidden_edge(kb, tmp_path):
    file = tmp_path / "known.jsonl"
    rows = [
        codec.item_to_dict(item("a")),
        codec.item_to_dict(item("b")),
        {"source": "a", "target": "b", "space": "s", "weight": 0.5},
    ]
    file.write_text("".join(codec.to_json(row) + "\n" for row in rows))
    kb.load(file)
    kb.add([], [Edge("a", "b", weight=0, space="s")])
    assert kb.load(file).edges == 0 and [edge.weight for edge in kb.edges()] == [0]
    file.write_text(file.read_text().replace("0.5", "0.7"))
    assert kb.load(file).edges == 1 and [edge.weight for edge in kb.edges()] == [
        0.7
    ]  # the source says something new


def test_loading_again_catches_up_after_an_interruption(kb, monkeypatch, tmp_path):
    file = tmp_path / "known.jsonl"
    file.write_text(
        "".join(codec.to_json(codec.item_to_dict(item(id, TAGS))) + "\n" for id in "ab")
    )
    with monkeypatch.context() as broken:
        broken.setattr(linker.Linker, "catch_up", lambda *_: ())  # the process ends after the write
        kb.load(file)
    assert edge_rows(kb) == set()
    assert kb.load(file).unchanged == 2
    assert edge_rows(kb) == {("a", "b", "shared_tag", 1.0)}


def test_a_page_computed_on_an_outdated_snapshot_is_computed_again(kb, monkeypatch):
    kb.add([item("a", TAGS), item("b")])
    once = iter([True])
    original = space_linker.SpaceLinker._compute_page

    def interrupted(self: Any, *args: Any) -> Any:
        links = original(self, *args)
        if next(once, False):
            self._store.apply(batch([item("a")]))  # somebody else, in between
        return links

    monkeypatch.setattr(space_linker.SpaceLinker, "_compute_page", interrupted)
    kb.add(item("b", TAGS))
    assert edge_rows(kb) == set()


def test_a_space_that_changes_too_fast_is_reported_and_linked_later(kb, monkeypatch):
    with monkeypatch.context() as busy:
        busy.setattr(space_linker, "MAX_ATTEMPTS", 0)
        report = kb.add([item("a", TAGS), item("b", TAGS)])
        with pytest.raises(Conflict, match="changes too fast"):
            kb.maintenance.link()
    assert report.added == 2 and "links are not up to date" in report.problems[0]
    assert kb.maintenance.link() == 2 and edge_rows(kb) == {("a", "b", "shared_tag", 1.0)}


# Incremental linking gives the edges of a rebuild and of a plain implementation of the rules.

_tags = st.lists(st.sampled_from(TAGS), max_size=4, unique=True)
_angle = st.none() | st.sampled_from(ANGLES)
_add = st.tuples(
    st.just("add"),
    st.lists(
        st.tuples(st.sampled_from(IDS), _tags, _angle),
        min_size=1,
        max_size=5,
        unique_by=lambda row: row[0],
    ),
)
_delete = st.tuples(
    st.just("delete"), st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True)
)
_pair = st.tuples(
    st.sampled_from(IDS),
    st.sampled_from(IDS),
    st.sampled_from(["shared_tag", "similar"]),
    st.sampled_from([0.0, 0.5]),
)
_link = st.tuples(
    st.just("link"), st.lists(_pair, min_size=1, max_size=2, unique_by=lambda row: row[:3])
)
_unlink = st.tuples(st.just("unlink"), st.lists(_pair, min_size=1, max_size=2))
_steps = st.lists(
    st.one_of(_add, _add, _add, _delete, _link, _unlink, st.just(("forget", []))),
    min_size=1,
    max_size=12,
)


def run_step(kb: Engine, step: tuple[str, Any], number: int) -> None:
    what, rows = step
    ids = {each.id for each in kb.items()}
    if what == "add":
        with_vector = [(id, tags, angle) for id, tags, angle in rows if angle is not None]
        bare = [
            item(id, tags, text=f"version {number}") for id, tags, angle in rows if angle is None
        ]
        kb.add(
            [item(id, tags, text=f"version {number}") for id, tags, _ in with_vector],
            vectors=[vector(angle) for *_, angle in with_vector],
        )
        kb.add([*bare, item("other", TAGS, "elsewhere")], embed=False)
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
        edges = [Edge(source, target, type, space="s") for source, target, type, _ in rows]
        stored = {edge.key for edge in kb.edges(["s"])}
        kb.delete_edges([edge for edge in edges if edge.key in stored])
    elif what == "forget":
        kb._stores.vectors.forget_vectors()
        kb.maintenance.link()


def expected_rows(kb: Engine) -> Keys:
    """The rules, as plainly as they can be written."""
    items = (
        list(kb.items(["s"]))
        if any(info.name == "s" for info in kb.maintenance.stats().spaces)
        else []
    )
    carriers = {tag: sum(tag in each.tags for each in items) for tag in TAGS}
    explicit = {(frozenset((edge.source, edge.target)), edge.type) for edge in kb.edges()}
    near: dict[str, list[tuple[float, str]]] = {}
    for first, second in itertools.combinations(sorted(items, key=lambda each: each.id), 2):
        shared = sum(
            carriers[tag] <= space_linker.COMMON_LABEL for tag in set(first.tags) & set(second.tags)
        )
        if shared >= 2 and (frozenset((first.id, second.id)), "shared_tag") not in explicit:
            near.setdefault(second.id, []).append((min(1.0, shared / 5), first.id))
    nearest = {
        id: sorted(pairs, reverse=True)[: nearest_rules.MAX_NEAREST] for id, pairs in near.items()
    }
    tagged = {
        (source, target, "shared_tag", round(weight, 2))
        for target, pairs in nearest.items()
        for weight, source in pairs
    }
    return tagged | {
        (min(pair), max(pair), "similar", round(cosine, 2))
        for pair, cosine in mutual_pairs(_vectors(kb, items)).items()
        if cosine >= 0.85 and (pair, "similar") not in explicit
    }


def _vectors(kb: Engine, items: Sequence[Item]) -> dict[str, Any]:
    store: Any = kb._stores.vectors
    axes = [np.array(vector(angle), np.float32) for angle in (0.0, np.pi / 2)]
    keys = [each.key for each in items]
    scores = [store.score_vectors(axis, keys) for axis in axes]
    return {
        id: np.array([scores[0][space, id], scores[1][space, id]], np.float32)
        for space, id in scores[0]
    }


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=_steps)
def test_incremental_linking_equals_a_rebuild_and_the_plain_rules(store, small, steps):
    folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    with (
        folder as path,
        knowloom.open(
            "memory:" if store == "memory" else f"{path}/knowloom.db", embedder=None
        ) as kb,
    ):
        for number, step in enumerate(steps):
            run_step(kb, step, number)
            if not kb.maintenance.stats().spaces or kb.maintenance.stats().spaces[-1].name != "s":
                continue
            rows, links = edge_rows(kb), kb.maintenance.stats()
            assert rows == expected_rows(kb)
            kb.maintenance.relink()
            assert edge_rows(kb) == rows and kb.maintenance.stats() == links
            assert kb.verify() == []


def test_memory_and_file_agree_on_similar_items(tmp_path):
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(5, 24))
    vectors = (centres[rng.integers(0, 5, 60)] + 0.35 * rng.normal(size=(60, 24))).tolist()
    pairs = []
    for url in ("memory:", str(tmp_path / "knowloom.db")):
        with knowloom.open(url, embedder=None) as kb:
            kb.add([item(f"{number:02}") for number in range(60)], vectors=vectors)
            pairs.append({(source, target) for source, target, _, _ in edge_rows(kb)})
    assert pairs[0] == pairs[1] and len(pairs[0]) > 50
    units = [np.array(row, np.float32) / np.linalg.norm(row).astype(np.float32) for row in vectors]
    assert all(
        cosine_similarity(units[int(first)], units[int(second)]) >= similar_rule.MIN_SIMILARITY
        for first, second in pairs[0]
    )


def test_the_origin_distinguishes_automatic_edges(kb):
    kb.add([item("a", TAGS), item("b", TAGS)], [Edge("a", "b", "related", 1.0, "s")])
    assert [(edge.type, edge.origin) for edge in kb.edges(automatic=None)] == [
        ("related", ""),
        ("shared_tag", AUTOMATIC),
    ]


def test_edges_are_listed_added_forbidden_and_rebuilt_on_the_command_line(tmp_path):
    path = str(tmp_path / "knowloom.db")
    with knowloom.open(path, embedder=None) as kb:
        kb.add([item("a", TAGS), item("b", TAGS), item("c")])

    def run(*words: str) -> dict[str, Any]:
        done = CliRunner().invoke(
            cli, [*words, "--db", path, "--embedder", "none", "--json"], catch_exceptions=False
        )
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assert [row["origin"] for row in run("links", "list", "--made")["links"]] == ["knowloom"]
    run("links", "add", "a", "c", "--space", "s", "--weight", "0.5")
    assert [row["target"] for row in run("links", "list", "--item", "c")["links"]] == ["c"]
    run("links", "forbid", "b", "a", "--space", "s")
    forbidden = run("links", "list", "--item", "b", "--space", "s")["links"]
    assert [(row["type"], row["weight"]) for row in forbidden] == [
        (type, 0.0) for type in sorted(rules.RULES)
    ]
    assert run("links", "rebuild") == {"items": 3, "links": 0}
    output = CliRunner().invoke(cli, ["links", "list", "--db", path]).stdout
    assert "forbidden" in output and "explicit" in output
    result = CliRunner().invoke(
        cli, ["links", "add", "a", "b", "--space", "s", "--weight", "0", "--db", path]
    )
    assert result.exit_code == 2 and "knowloom links forbid" in result.output


def test_an_export_has_explicit_edges_only_and_loads_to_the_same(tmp_path):
    path = str(tmp_path / "knowloom.db")
    with knowloom.open(path, embedder=None) as kb:
        kb.add(
            [item("a", TAGS), item("b", TAGS), item("c", TAGS)],
            [Edge("a", "b", "shared_tag", 0, "s")],
        )
        links, stats = edge_rows(kb), kb.maintenance.stats()
    out = tmp_path / "out.jsonl"
    assert CliRunner().invoke(cli, ["export", "--db", path, "-o", str(out)]).exit_code == 0
    assert "knowloom" not in out.read_text().replace("knowloom.db", "")
    with knowloom.open("memory:", embedder=None) as imported:
        imported.load(out)
        assert (
            edge_rows(imported)
            == links
            == {("a", "c", "shared_tag", 1.0), ("b", "c", "shared_tag", 1.0)}
        )
        assert imported.maintenance.stats() == stats


def test_forbidding_and_adding_apply_in_both_directions(tmp_path):
    file = str(tmp_path / "k.db")
    with knowloom.open(file, embedder=None) as kb:
        kb.add([item("a"), item("b")], [Edge("a", "b", "likes", 0.8, space="s")])

    def run(*words: str) -> list[tuple[str, str, float]]:
        assert (
            CliRunner()
            .invoke(cli, ["links", *words, "--space", "s", "--type", "likes", "--db", file])
            .exit_code
            == 0
        )
        with knowloom.open(file, embedder=None) as kb:
            return [(edge.source, edge.target, edge.weight) for edge in kb.edges()]

    assert run("forbid", "b", "a") == [("a", "b", 0), ("b", "a", 0)]
    assert run("add", "b", "a", "--weight", "0.4") == [("b", "a", 0.4)]
    assert run("forbid", "a", "b") == [("a", "b", 0), ("b", "a", 0)]
