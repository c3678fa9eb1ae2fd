"""Graph contexts for queries and entities: options, neighbours, axioms and claims."""

from __future__ import annotations

from datetime import timedelta

import pytest
from small_graph import CHAIN, CHAIN_EDGES, FORMATS, NOW, entity, graph, ids, links

import knowloom
from knowloom import Edge, GraphContext, GraphOptions, Item, tokens
from knowloom.engine import Engine
from knowloom.errors import Invalid, NotFound, Unavailable
from knowloom.model import Kind
from knowloom.ports import Stores
from knowloom.stores.memory.store import MemoryStore
from paths import ROOT

HARBOR = ROOT / "examples" / "harbor"


@pytest.fixture(scope="module")
def harbor():
    with knowloom.open("memory:", embedder=None) as kb:
        kb.load(HARBOR)
        yield kb


@pytest.fixture
def kb():
    with knowloom.open("memory:", embedder=None) as engine:
        yield engine


class TestQuery:
    def test_a_query_returns_entities_axioms_and_violations(self, harbor):
        answer = GraphContext(harbor, ["shared"]).for_query("Åre wool blanket", now=NOW)
        assert ids(answer)[0] == "are-wool-blanket" and answer.entities[0].matched_terms == (
            "åre",
            "wool",
            "blanket",
        )
        assert [axiom.id for axiom in answer.axioms] == [
            "axiom-product-sku",
            "axiom-product-warranty",
            "axiom-product-origin",
        ]
        assert [(violation.id, violation.axiom) for violation in answer.violations] == [
            ("are-wool-blanket", "axiom-product-origin")
        ]
        assert answer.query == "Åre wool blanket" and answer.degraded == () and not answer.truncated
        assert answer.tokens == tokens.get_counter("gpt-4").count(answer.text) <= 2000

    def test_a_query_without_matches_returns_an_empty_answer(self, harbor):
        answer = GraphContext(harbor, ["shared"]).for_query("zzz qqq")
        assert (answer.text, answer.tokens, answer.entities, answer.truncated) == ("", 0, (), False)

    def test_the_same_request_gives_the_same_bytes(self, harbor):
        ask = GraphContext(harbor, ["shared", "support"]).for_query
        assert (
            len(
                {
                    ask(
                        "refund requests in Tidewater",
                        relationship_depth=3,
                        include_claims=True,
                        now=NOW,
                    ).text
                    for _ in range(3)
                }
            )
            == 1
        )

    def test_other_spaces_are_invisible(self, kb):
        answer = graph(kb, entity("alpha"), entity("alpha", space="t", status="other")).for_query(
            "alpha"
        )
        assert [entity.item.space for entity in answer.entities] == ["s"]
        with pytest.raises(NotFound, match="unknown space 'nowhere'"):
            GraphContext(kb, ["nowhere"]).for_query("alpha")

    def test_edges_into_another_space_are_followed_only_if_it_is_requested(self, kb):
        kb.add([entity("alpha"), entity("beta", space="t"), entity("beta")])
        kb.add(
            [],
            [
                Edge("alpha", "beta", "USES", 0.9, "s", target_space="t"),
                Edge("alpha", "beta", "USES", 0.8, "s"),
            ],
        )
        assert [
            relationship.edge.weight
            for relationship in GraphContext(kb, ["s"]).for_entities("alpha").relationships
        ] == [0.8]
        answer = GraphContext(kb, ["s", "t"]).for_entities("alpha")
        assert [relationship.edge.weight for relationship in answer.relationships] == [
            0.9,
            0.8,
        ] and [entity.item.space for entity in answer.entities] == ["s", "t", "s"]

    def test_scripts_without_spaces_are_searched(self, kb):
        assert ids(
            graph(kb, entity("refund", "退款服务"), entity("order", "订单")).for_query(
                "退款怎么办?"
            )
        ) == ["refund"]

    def test_a_graph_context_needs_an_engine_or_a_client(self):
        with pytest.raises(Invalid, match="needs an engine"):
            GraphContext("knowledge.db", ["s"])

    def test_as_of_hides_later_entities(self, kb):
        provider = graph(kb, entity("alpha"))
        assert ids(provider.for_query("alpha", as_of=NOW - timedelta(days=1))) == []
        assert ids(provider.for_query("alpha", as_of=NOW)) == ["alpha"]


class TestOptions:
    @pytest.fixture
    def chain(self, kb):
        kb.add(
            Item(
                "r",
                "s",
                Kind.RULE,
                "axiom",
                "Rule one",
                "Systems are live.",
                subject="System",
                properties={"rules": []},
            )
        )
        return graph(kb, *CHAIN, edges=CHAIN_EDGES)

    def test_depth_0_shows_edges_between_hits_and_follows_none(self, chain):
        answer = chain.for_query("alpha beta", relationship_depth=0)
        assert sorted(ids(answer)) == ["alpha", "beta"] and sorted(links(answer)) == [
            ("alpha", "CALLS", "alpha"),
            ("alpha", "USES", "beta"),
            ("beta", "FEEDS", "alpha"),
        ]

    @pytest.mark.parametrize(
        ("depth", "result"),
        [
            (0, ["alpha"]),
            (1, ["alpha", "beta"]),
            (2, ["alpha", "beta", "gamma"]),
            (3, ["alpha", "beta", "gamma", "delta"]),
        ],
    )
    def test_each_hop_leads_to_more_entities(self, chain, depth, result):
        assert ids(chain.for_query("alpha", relationship_depth=depth)) == result

    def test_without_relationships_nothing_is_followed_or_shown(self, chain):
        answer = chain.for_query("alpha", include_relationships=False, relationship_depth=2)
        assert ids(answer) == ["alpha"] and answer.relationships == () and "-->" not in answer.text

    def test_min_relevance_score_drops_less_relevant_entities(self, chain):
        assert ids(
            chain.for_query("alpha beta gamma", min_relevance_score=0.0, relationship_depth=0)
        ) == ["alpha", "beta", "gamma"]
        assert ids(chain.for_query("alpha", min_relevance_score=0.46, relationship_depth=3)) == [
            "alpha"
        ]

    def test_entity_types_filter_entities(self, chain):
        assert ids(chain.for_query("alpha delta", entity_types=["Team"])) == ["delta"]
        assert ids(
            chain.for_query("alpha delta", entity_types={"System"}, relationship_depth=0)
        ) == ["alpha"]
        assert ids(chain.for_query("alpha delta", exclude_entity_types=["System"])) == ["delta"]

    def test_max_entities_limits_entities_and_reports_the_rest(self, chain):
        answer = chain.for_query("alpha beta gamma", max_entities=2)
        assert ids(answer) == ["alpha", "beta"] and answer.truncated
        assert ("gamma", "beyond the best 2 entities") in [
            (omission.hit.item.id, omission.reason) for omission in answer.left_out
        ]
        assert chain.for_query("alpha", max_entities=0).text == ""

    def test_max_relationships_limits_relationships(self, chain):
        answer = chain.for_query("alpha beta", max_relationships=1)
        assert links(answer) == [("alpha", "USES", "beta")] and answer.truncated

    def test_axioms_are_shown_and_checked_unless_excluded(self, chain):
        assert [axiom.id for axiom in chain.for_query("alpha").axioms] == ["r"]
        answer = chain.for_query("alpha", include_axioms=False)
        assert answer.axioms == () and "Rule one" not in answer.text

    def test_included_claims_have_evidence_and_confidence(self, harbor):
        provider = GraphContext(harbor, ["shared"])
        assert provider.for_query("Kestrel tent").claims == ()
        answer = provider.for_query("Kestrel tent", include_claims=True)
        assert [hit.item.id for hit in answer.claims] == [
            "claim-kestrel-hydrostatic-head",
            "claim-kestrel-warranty-60",
            "claim-kestrel-warranty-36",
        ]
        assert (
            'hydrostatic_head: 3000 mm (confidence 0.95, status valid); evidence: "The fly sheet'
            in answer.text
        )
        assert [
            violation.constraint for violation in answer.violations if violation.kind == "claim"
        ] == ["contradiction"]
        assert (
            len(
                provider.for_query(
                    "Kestrel tent", include_claims=True, max_claims_per_entity=1
                ).claims
            )
            == 1
        )

    def test_violations_are_in_the_text_only_if_included(self, harbor):
        provider = GraphContext(harbor, ["shared"])
        assert "Violations" not in provider.for_query("Åre wool blanket").text
        text = provider.for_query("Åre wool blanket", include_violations=True).text
        assert "## Violations\n- warning: Åre Wool Blanket: country of origin is missing" in text

    def test_max_properties_per_entity_limits_properties(self, kb):
        provider = graph(kb, entity("alpha", one=1, two=2, three=3))
        assert provider.for_query("alpha", max_properties_per_entity=2).text.endswith(
            "- **one**: 1\n- **two**: 2"
        )
        assert (
            provider.for_query("alpha", include_properties=False).text
            == "## Knowledge Entities\n### System: Alpha"
        )

    @pytest.mark.parametrize("format", FORMATS)
    def test_included_property_descriptions_are_shown(self, kb, format):
        described = entity("alpha", one=1, two=2, property_descriptions={"two": "the second"})
        rule = Item(
            "schema",
            "s",
            Kind.RULE,
            "schema",
            "Schema",
            subject="System",
            properties={"property_descriptions": {"one": "the first"}},
        )
        provider = graph(kb, described, rule)
        text = provider.for_query(
            "alpha", include_property_descriptions=True, include_axioms=False, format=format
        ).text
        assert "the first" in text and "the second" in text
        assert (
            "the first" not in provider.for_query("alpha", include_axioms=False, format=format).text
        )

    @pytest.mark.parametrize("format", FORMATS)
    def test_ids_are_shown_only_if_included(self, kb, format):
        provider = graph(
            kb,
            entity("id-7", "Alpha"),
            entity("id-8", "Beta"),
            edges=(Edge("id-7", "id-8", "USES", 0.9, "s"),),
        )
        assert "id-7" not in provider.for_query("alpha", format=format).text
        assert (
            provider.for_query("alpha", format=format, include_entity_ids=True).text.count("id-7")
            == 2
        )

    def test_entities_are_separated_by_the_separator(self, kb):
        provider = graph(kb, entity("alpha"), entity("beta"))
        assert "live\n\n### System: Beta" in provider.for_query("alpha beta").text
        assert provider.for_query("alpha beta", entity_separator="***\n").text.count("***\n") == 1

    def test_a_model_counts_its_own_tokens(self, kb):
        answer = graph(kb, entity("alpha")).for_query("alpha", model="any-other", strict=True)
        assert answer.tokens == len(answer.text.encode()) and answer.stats.token_counter.startswith(
            "upper-bound"
        )

    def test_options_of_a_graph_context_are_the_defaults_of_its_requests(self, kb):
        kb.add([entity("alpha"), entity("beta")])
        provider = GraphContext(kb, ["s"], GraphOptions(max_entities=1, format="plain"))
        assert (
            provider.for_query("alpha beta").text
            == "Knowledge Entities:\nSystem: Alpha\n  status: live"
        )
        assert len(provider.for_query("alpha beta", max_entities=2).entities) == 2

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"format": "xml"}, "unknown format 'xml'; available: json, markdown, plain, yaml"),
            ({"agent": "editor"}, "unknown option 'agent'; available: as_of, "),
            ({"max_tokens": -1}, "max_tokens must be an integer"),
            ({"max_entities": 1001}, "max_entities must be an integer from 0 to 1,000"),
            ({"relationship_depth": 11}, "relationship_depth must be an integer from 0 to 10"),
            ({"min_relevance_score": 1.5}, "min_relevance_score must be a number from 0 to 1"),
            ({"entity_types": []}, "entity_types must name at least one type"),
            ({"entity_types": "Team"}, "entity_types must be a list"),
            ({"include_claims": 1}, "include_claims must be true or false"),
            ({"entity_separator": None}, "entity_separator must be a text"),
            ({"ranker": "best"}, "unknown ranker 'best'; available: signals, terms"),
            ({"ranker": 7}, "ranker must be signals, terms or an object with a method rank"),
            ({"mode": "both"}, "unknown mode 'both'"),
            ({"model": ""}, "model must be an OpenAI model"),
        ],
    )
    def test_invalid_options_are_refused(self, harbor, options, message):
        with pytest.raises(Invalid) as refused:
            GraphContext(harbor, ["shared"]).for_query("x", **options)
        assert str(refused.value).startswith(message)


class TestEntities:
    def test_requested_entities_keep_their_order_and_have_their_neighbours(self, kb):
        answer = graph(kb, *CHAIN, edges=CHAIN_EDGES).for_entities(
            ["gamma", "alpha", "gamma"], relationship_depth=1
        )
        assert ids(answer) == ["gamma", "alpha", "beta", "delta"] and answer.query is None
        assert [entity.score for entity in answer.entities] == [1.0, 1.0, 0.45, 0.45]

    def test_ids_of_other_items_are_left_out_and_reported(self, kb):
        answer = graph(kb, entity("alpha"), Item("page", "s", title="A page")).for_entities(
            ["nope", "alpha", "page"]
        )
        assert ids(answer) == ["alpha"]
        assert [(omission.hit.item.id, omission.reason) for omission in answer.left_out] == [
            ("nope", "no such entity is stored"),
            ("page", "not shown: kind 'node' was not requested"),
        ]

    def test_entities_beyond_the_limit_are_reported(self, kb):
        answer = graph(kb, *CHAIN).for_entities(["delta", "alpha", "beta"], max_entities=2)
        assert ids(answer) == ["delta", "alpha"] and answer.truncated

    def test_edges_between_two_hubs_are_found_behind_heavier_ones(self, kb):
        leaves = [entity(f"leaf{number}") for number in range(40)]
        edges = [
            Edge(hub, leaf.id, "USES", 0.9, "s") for hub in ("alpha", "beta") for leaf in leaves
        ]
        edges += [
            Edge(leaf.id, hub, "USES", 0.9, "s") for hub in ("alpha", "beta") for leaf in leaves
        ]
        provider = graph(
            kb,
            entity("alpha"),
            entity("beta"),
            *leaves,
            edges=(*edges, Edge("alpha", "beta", "USES", 0.1, "s")),
        )
        assert links(provider.for_entities(["alpha", "beta"], relationship_depth=0)) == [
            ("alpha", "USES", "beta")
        ]

    def test_a_hub_returns_its_best_neighbours(self, kb):
        leaves = [entity(f"leaf{number:03}") for number in range(300)]
        edges = [
            Edge("alpha", leaf.id, "USES", round((number * 7 % 300 + 1) / 301, 4), "s")
            for number, leaf in enumerate(leaves)
        ]
        answer = graph(kb, entity("alpha"), *leaves, edges=tuple(edges)).for_entities(
            ["alpha"], max_entities=6
        )
        best = [edge.target for edge in sorted(edges, key=lambda edge: -edge.weight)[:5]]
        assert ids(answer) == ["alpha", *best]


class Broken(MemoryStore):
    """A graph that is unavailable."""

    def edges_of(self, *_: object, **__: object) -> list[Edge]:
        raise Unavailable("the graph is down")


def test_an_unavailable_graph_degrades_the_answer():
    store, down = MemoryStore(), Broken()
    with Engine(Stores(store, store, store, down)) as kb:
        kb.add(CHAIN, CHAIN_EDGES)
        answer = GraphContext(kb, ["s"]).for_query("alpha")
        assert ids(answer) == ["alpha"] and {problem.reason for problem in answer.degraded} == {
            "the graph is down"
        }


def test_an_unusable_rule_is_reported_and_the_rest_is_used(kb):
    bad = Item(
        "bad",
        "s",
        Kind.RULE,
        "axiom",
        "Bad",
        subject="System",
        properties={"rules": [{"property": "p", "constraint": "pattern", "pattern": "("}]},
    )
    answer = graph(kb, bad, entity("alpha")).for_query("alpha")
    assert ids(answer) == ["alpha"] and [problem.code for problem in answer.degraded] == [
        "invalid_axiom"
    ]


def test_too_many_claims_are_reported(kb, monkeypatch):
    monkeypatch.setattr("knowloom.capabilities.graph.neighbourhood.MAX_CLAIMS", 2)
    claims = [
        Item(
            f"c{number}",
            "s",
            Kind.CLAIM,
            "statement",
            "C",
            subject="alpha",
            properties={"predicate": f"p{number}"},
        )
        for number in range(3)
    ]
    answer = graph(kb, entity("alpha"), *claims).for_query("alpha", include_claims=True)
    assert len(answer.claims) == 2 and [problem.code for problem in answer.degraded] == ["too_many"]


def test_vectors_find_entities_without_matching_words(kb):
    kb.add([entity("alpha"), entity("beta")], vectors=[[1.0, 0.0], [0.0, 1.0]])
    answer = GraphContext(kb, ["s"]).for_query(
        "unheard", vector=[0.1, 1.0], ranker="signals", min_relevance_score=0.5
    )
    assert ids(answer) == ["beta"] and answer.entities[0].signals["semantic"] > 0.9


def test_automatic_edges_are_not_relationships(kb):
    provider = graph(
        kb,
        Item("ship", "s", Kind.ENTITY, title="Ship", text="The Mast is high."),
        entity("mast"),
        edges=(Edge("ship", "mast", "HAS", space="s"),),
    )
    assert [edge.type for edge in kb.edges(["s"], automatic=True)] == ["mentions"]
    assert links(provider.for_entities(["ship", "mast"])) == [("ship", "HAS", "mast")]
