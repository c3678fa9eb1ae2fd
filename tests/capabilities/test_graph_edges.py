"""Graph context, provider and check by the links that count: people's own, known at the time, not forbidden; and an answer's digest."""

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


def told(answer: knowloom.GraphAnswer) -> list[tuple[str, str, str]]:
    return [(one.edge.source, one.edge.type, one.edge.target) for one in answer.relationships]


def test_of_an_earlier_time_entities_rules_and_claims_are_shown_as_they_were(
    kb: Engine, clock: Clock
) -> None:
    rule = Item("rule", "s", Kind.RULE, "axiom", "Rule", "Be careful.", subject="System")
    claim = Item(
        "claim",
        "s",
        Kind.CLAIM,
        "speed",
        "",
        subject="ship",
        confidence=0.9,
        properties={"predicate": "speed", "object": "slow"},
    )
    kb.add(
        [entity("ship", "It is white."), entity("mast", "It is high."), rule, claim],
        [Edge("ship", "mast", "HAS", space="s")],
    )
    clock.now = NOW + 5 * DAY
    later = [
        entity("ship", "It is black."),
        entity("mast", "It is broken."),
        Item("rule", "s", Kind.RULE, "axiom", "Rule", "Be quick.", subject="System"),
    ]
    kb.add(
        [
            *later,
            Item(
                "claim",
                "s",
                Kind.CLAIM,
                "speed",
                "",
                subject="ship",
                confidence=0.9,
                properties={"predicate": "speed", "object": "fast"},
            ),
        ]
    )
    asked = GraphContext(kb, ["s"])
    before, after = (
        asked.for_query("ship", include_claims=True, as_of=time).text
        for time in (NOW + DAY, NOW + 6 * DAY)
    )
    for old, new in (
        ("white", "black"),
        ("high", "broken"),
        ("careful", "quick"),
        ("slow", "fast"),
    ):
        assert old in before and new not in before and new in after and old not in after
    assert "high" in asked.for_entities(["mast"], as_of=NOW + DAY).text


def test_a_link_that_says_since_when_it_is_known_is_not_shown_before(kb: Engine) -> None:
    since = {SINCE: (NOW + 5 * DAY).isoformat()}
    kb.add(
        [entity("ship"), entity("mast")], [Edge("ship", "mast", "HAS", space="s", properties=since)]
    )
    asked = GraphContext(kb, ["s"])
    assert told(asked.for_entities(["ship", "mast"], as_of=NOW + 4 * DAY)) == []
    assert told(asked.for_entities(["ship", "mast"], as_of=NOW + 6 * DAY)) == [
        ("ship", "HAS", "mast")
    ]
    provider = knowloom.Provider(kb, spaces=["s"], entity_id="ship")
    assert provider.retrieve("ship", as_of=NOW + 4 * DAY).graph_context == ()
    assert len(provider.retrieve("ship", as_of=NOW + 6 * DAY).graph_context) == 1


def test_a_forbidden_link_is_shown_nowhere(kb: Engine) -> None:
    kb.add([entity("ship"), entity("mast")], [Edge("ship", "mast", "HAS", 0.0, "s")])
    assert told(GraphContext(kb, ["s"]).for_entities(["ship", "mast"])) == []
    assert (
        knowloom.Provider(kb, spaces=["s"], entity_id="ship").retrieve("ship").graph_context == ()
    )
    assert kb.check("s").relationships == 0


def test_a_check_looks_at_what_people_said(kb: Engine) -> None:
    kb.add(
        [entity("ship", "The Mast is high."), entity("mast")],
        [Edge("ship", "mast", "HAS", space="s")],
    )
    assert [edge.type for edge in kb.edges(["s"], made=True)] == ["mentions"]
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
    found = kb.check("s")
    assert found.relationships == 1 and [one.axiom for one in found.violations] == ["dated-HAS"]


def test_links_that_knowloom_made_take_no_room_from_those_of_people(kb: Engine) -> None:
    parts = [entity(f"part-{number}", "It belongs to the Ship.") for number in range(40)]
    kb.add([*parts, entity("ship")], [Edge("part-7", "ship", "HAS", 0.1, "s")])
    assert (
        sum(edge.target == "ship" and edge.weight > 0.1 for edge in kb.edges(["s"], made=True))
        == 40
    )
    assert told(GraphContext(kb, ["s"]).for_entities(["ship", "part-7"], relationship_depth=0)) == [
        ("part-7", "HAS", "ship")
    ]
    assert [
        one.type
        for one in knowloom.Provider(kb, spaces=["s"], entity_id="ship")
        .retrieve("ship")
        .graph_context
    ] == ["HAS"]


class TestDigest:
    def test_the_same_request_on_the_same_knowledge_has_the_same_one(self, kb: Engine) -> None:
        kb.add([entity("ship", "white"), entity("mast")], [Edge("ship", "mast", "HAS", space="s")])
        asked = GraphContext(kb, ["s"])
        first, second = (asked.for_query("ship", now=NOW) for _ in range(2))
        assert (
            first.digest == second.digest and len(first.digest) == 64 and first.text == second.text
        )

    def test_whatever_the_text_depends_on_changes_it(self, kb: Engine) -> None:
        kb.add([entity("ship", "white"), entity("mast")], [Edge("ship", "mast", "HAS", space="s")])
        asked = GraphContext(kb, ["s"])
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
        seen = [asked.for_query("ship", now=NOW, **one).digest for one in options]
        seen += [
            asked.for_entities(one, now=NOW).digest
            for one in (["ship"], ["mast"], ["ship", "mast"])
        ]
        seen += [asked.for_document(one, now=NOW).digest for one in (document, other)]
        kb.add(entity("ship", "black"))
        seen.append(asked.for_query("ship", now=NOW).digest)
        assert len(set(seen)) == len(seen)


class TestMode:
    """An entity that only words find, and one that only its vector finds."""

    @pytest.mark.parametrize(
        ("mode", "ways"),
        [("hybrid", {"bm25", "vector"}), ("bm25", {"bm25"}), ("vector", {"vector"})],
    )
    def test_entities_are_found_by_words_by_meaning_or_by_both(
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
        assert {way for one in answer.entities for way in one.hit.found_by} == ways
        assert ("words" in [one.item.id for one in answer.entities if "bm25" in one.signals]) is (
            "bm25" in ways
        )
        assert ("meaning" in [one.item.id for one in answer.entities]) is ("vector" in ways)

    def test_walking_is_no_mode_here(self, kb: Engine) -> None:
        kb.add(entity("ship"))
        with pytest.raises(knowloom.Invalid, match="no mode 'walk'; known: bm25, hybrid, vector"):
            GraphContext(kb, ["s"]).for_query("ship", mode="walk")
