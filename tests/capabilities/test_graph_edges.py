"""Edges used by graph contexts, providers and checks: explicit, current, not forbidden."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import knowloom
from knowloom import Edge, Engine, GraphContext, Item, Kind
from knowloom.model import SINCE
from knowloom.registry import open_stores

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class Clock:
    now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    with Engine(
        open_stores("memory:" if request.param == "memory" else str(tmp_path / "k.db"), {}),
        None,
        clock,
    ) as engine:
        yield engine


def entity(id: str, text: str = "", **more: object) -> Item:
    return Item(id, "s", Kind.ENTITY, "System", id.title(), text, **more)  # type: ignore[arg-type]


def triples(answer: knowloom.GraphAnswer) -> list[tuple[str, str, str]]:
    return [
        (relationship.edge.source, relationship.edge.type, relationship.edge.target)
        for relationship in answer.relationships
    ]


def test_as_of_shows_entities_rules_and_claims_as_they_were(kb: Engine, clock: Clock) -> None:
    def rule(text: str) -> Item:
        return Item("rule", "s", Kind.RULE, "axiom", "Rule", text, subject="System")

    def claim(speed: str) -> Item:
        properties = {"predicate": "speed", "object": speed}
        return Item("claim", "s", Kind.CLAIM, "speed", subject="ship", properties=properties)

    kb.add(
        [entity("ship", "It is white."), entity("mast", "It is high."), rule("Be careful.")],
        [Edge("ship", "mast", "HAS", space="s")],
    )
    kb.add(claim("slow"))
    clock.now = NOW + 5 * DAY
    kb.add([entity("ship", "It is black."), entity("mast", "It is broken."), rule("Be quick.")])
    kb.add(claim("fast"))
    context = GraphContext(kb, ["s"])
    before, after = (
        context.for_query("ship", include_claims=True, as_of=time).text
        for time in (NOW + DAY, NOW + 6 * DAY)
    )
    for old, new in (
        ("white", "black"),
        ("high", "broken"),
        ("careful", "quick"),
        ("slow", "fast"),
    ):
        assert old in before and new not in before and new in after and old not in after
    assert "high" in context.for_entities(["mast"], as_of=NOW + DAY).text


def test_an_edge_is_not_shown_before_its_since_date(kb: Engine) -> None:
    since = {SINCE: (NOW + 5 * DAY).isoformat()}
    kb.add(
        [entity("ship"), entity("mast")], [Edge("ship", "mast", "HAS", space="s", properties=since)]
    )
    context = GraphContext(kb, ["s"])
    assert triples(context.for_entities(["ship", "mast"], as_of=NOW + 4 * DAY)) == []
    assert triples(context.for_entities(["ship", "mast"], as_of=NOW + 6 * DAY)) == [
        ("ship", "HAS", "mast")
    ]
    provider = knowloom.Provider(kb, spaces=["s"], entity_id="ship")
    assert provider.retrieve("ship", as_of=NOW + 4 * DAY).graph_context == ()
    assert len(provider.retrieve("ship", as_of=NOW + 6 * DAY).graph_context) == 1


def test_a_forbidden_edge_is_shown_nowhere(kb: Engine) -> None:
    kb.add([entity("ship"), entity("mast")], [Edge("ship", "mast", "HAS", 0.0, "s")])
    assert triples(GraphContext(kb, ["s"]).for_entities(["ship", "mast"])) == []
    assert (
        knowloom.Provider(kb, spaces=["s"], entity_id="ship").retrieve("ship").graph_context == ()
    )
    assert kb.check("s").relationships == 0


def test_a_check_covers_explicit_edges_only(kb: Engine) -> None:
    kb.add(
        [entity("ship", "The Mast is high."), entity("mast")],
        [Edge("ship", "mast", "HAS", space="s")],
    )
    assert [edge.type for edge in kb.edges(["s"], automatic=True)] == ["mentions"]
    rule = {
        "target_kind": "relationship",
        "severity": "error",
        "rules": [{"property": "since", "constraint": "required"}],
    }
    kb.add(
        [
            Item(f"dated-{type}", "s", Kind.RULE, "axiom", "Dated", subject=type, properties=rule)
            for type in ("HAS", "mentions")
        ]
    )
    check = kb.check("s")
    assert check.relationships == 1 and [violation.axiom for violation in check.violations] == [
        "dated-HAS"
    ]


def test_automatic_edges_do_not_displace_explicit_ones(kb: Engine) -> None:
    parts = [entity(f"part-{number}", "It belongs to the Ship.") for number in range(40)]
    kb.add([*parts, entity("ship")], [Edge("part-7", "ship", "HAS", 0.1, "s")])
    assert (
        sum(edge.target == "ship" and edge.weight > 0.1 for edge in kb.edges(["s"], automatic=True))
        == 40
    )
    assert triples(
        GraphContext(kb, ["s"]).for_entities(["ship", "part-7"], relationship_depth=0)
    ) == [("part-7", "HAS", "ship")]
    assert [
        relation.type
        for relation in knowloom.Provider(kb, spaces=["s"], entity_id="ship")
        .retrieve("ship")
        .graph_context
    ] == ["HAS"]


class TestDigest:
    def test_the_same_request_on_the_same_knowledge_has_the_same_digest(self, kb: Engine) -> None:
        kb.add([entity("ship", "white"), entity("mast")], [Edge("ship", "mast", "HAS", space="s")])
        context = GraphContext(kb, ["s"])
        first, second = (context.for_query("ship", now=NOW) for _ in range(2))
        assert (
            first.digest == second.digest and len(first.digest) == 64 and first.text == second.text
        )

    def test_all_inputs_of_the_text_change_the_digest(self, kb: Engine) -> None:
        kb.add([entity("ship", "white"), entity("mast")], [Edge("ship", "mast", "HAS", space="s")])
        context = GraphContext(kb, ["s"])
        document, other = (
            knowloom.Document("d", content=text) for text in ("The ship.", "The mast.")
        )
        options: list[dict[str, object]] = [
            {},
            {"max_tokens": 5},
            {"include_entity_ids": True},
            {"tier": "writer_pro"},
            {"as_of": NOW},
            {"ranker": "signals"},
        ]
        seen = [context.for_query("ship", now=NOW, **arguments).digest for arguments in options]
        seen += [
            context.for_entities(ids, now=NOW).digest
            for ids in (["ship"], ["mast"], ["ship", "mast"])
        ]
        seen += [context.for_document(doc, now=NOW).digest for doc in (document, other)]
        kb.add(entity("ship", "black"))
        seen.append(context.for_query("ship", now=NOW).digest)
        assert len(set(seen)) == len(seen)


class TestMode:
    """An entity that only words find, and one that only its vector finds."""

    @pytest.mark.parametrize(
        ("mode", "ways"),
        [("hybrid", {"bm25", "vector"}), ("bm25", {"bm25"}), ("vector", {"vector"})],
    )
    def test_entities_are_found_by_words_by_vectors_or_by_both(
        self, kb: Engine, mode: str, ways: set[str]
    ) -> None:
        kb.add(
            [
                Item("words", "s", Kind.ENTITY, "System", "alpha"),
                Item("meaning", "s", Kind.ENTITY, "System", "omega"),
            ],
            vectors=[[0.0, 1.0], [1.0, 0.0]],
        )
        answer = GraphContext(kb, ["s"]).for_query(
            "alpha", mode=mode, vector=[1.0, 0.0], ranker="signals"
        )
        assert {way for entity in answer.entities for way in entity.hit.found_by} == ways
        assert (
            "words" in [entity.item.id for entity in answer.entities if "bm25" in entity.signals]
        ) is ("bm25" in ways)
        assert ("meaning" in [entity.item.id for entity in answer.entities]) is ("vector" in ways)

    def test_mode_walk_is_refused(self, kb: Engine) -> None:
        kb.add(entity("ship"))
        with pytest.raises(
            knowloom.Invalid, match="unknown mode 'walk'; available: bm25, hybrid, vector"
        ):
            GraphContext(kb, ["s"]).for_query("ship", mode="walk")
