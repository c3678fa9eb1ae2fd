"""Ingested text becomes items and edges; secrets are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structured_text import (
    NOW,
    PIECE,
    TEXT,
    Serve,
    Take,
    piece,
    pieces,
    say,
)

import knowloom
from knowloom.errors import Invalid
from secret_samples import samples

TOKEN = samples("github-token")[0]


class TestStoring:
    def test_records_are_written_beside_the_knowledge_file_by_default(
        self, serve: Serve, tmp_path: Path
    ) -> None:
        llm, server = serve(say())
        with knowloom.open(str(tmp_path / "k.db"), embedder=None) as kb:
            first = kb.ingest(TEXT, llm=llm, space="team", now=NOW)
            again = kb.ingest(TEXT, llm=llm, space="team", now=NOW)
        assert first.record is not None and (
            first.record.parent,
            again.duplicate,
            len(server.requests),
        ) == (tmp_path / "k.db.checkins", True, 1)

    def test_knowledge_in_memory_has_no_records_by_default(
        self, kb: knowloom.Engine, serve: Serve
    ) -> None:
        assert kb.ingest(TEXT, llm=serve(say())[0], space="team", now=NOW).record is None

    @pytest.mark.parametrize("now", [0, "", "soon"])
    def test_an_invalid_time_is_rejected(self, kb: knowloom.Engine, serve: Serve, now: Any) -> None:
        with pytest.raises(Invalid, match="now must be a time such as"):
            kb.ingest(TEXT, llm=serve(say())[0], space="team", now=now)

    def test_a_text_becomes_items_and_edges(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        result = take(serve(say())[0], entity="user:alice", source="notes.txt")
        (item,) = kb.get("warm-start", space="team")
        (edge,) = kb.edges(["team"])
        assert (result.report.added, result.report.edges, result.report.skipped) == (3, 1, ())
        assert (item.type, item.section, item.subject, item.tags, item.source) == (
            "procedure",
            "instructions",
            "user:alice",
            ("les", "start"),
            "notes.txt",
        )
        assert (edge.source, edge.target, edge.type, edge.item_id) == (
            "user:alice",
            "technique:les",
            "SPECIALIZES_IN",
            "warm-start",
        )
        assert (
            kb.search("warm start transient large-eddy", spaces=["team"])[0].item.id == "warm-start"
        )

    def test_the_entity_exists_even_if_the_model_forgets_it(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        take(serve(say(pieces(PIECE)))[0], entity="user:Alice B")
        assert kb.get("user:Alice B", space="team")[0].type == "user"
        assert kb.get("warm-start", space="team")[0].subject == "user:Alice B"

    def test_a_profile_keeps_what_the_text_does_not_mention(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        more = {
            "metadata": {"user:alice": {"entity_type": "user", "properties": {"city": "Porto"}}}
        }
        llm, _ = serve(say(), say(more), say(pieces(piece(piece_id="other", content="Other."))))
        for number in range(3):
            take(llm, f"{TEXT} {number}", entity="user:alice")
        (alice,) = kb.get("user:alice", space="team")
        assert (alice.title, dict(alice.properties)) == ("Alice", {"team": "aero", "city": "Porto"})

    def test_an_entity_with_a_text_is_not_replaced(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        kb.add(
            knowloom.Item(
                "user:alice", "team", knowloom.Kind.ENTITY, title="Alice", text="Wrote the solver."
            )
        )
        result = take(serve(say())[0])
        assert kb.get("user:alice", space="team")[0].text == "Wrote the solver."
        assert [skip.where for skip in result.report.skipped] == ["metadata['user:alice']"]
        assert len(list(kb.edges(["team"]))) == 1

    def test_the_same_id_about_two_entities_is_two_pieces(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        llm, _ = serve(say(pieces(PIECE)), say(pieces(piece(content="Never start warm."))))
        take(llm, "one", entity="user:alice")
        take(llm, "two", entity="user:bob")
        assert {item.subject for item in kb.items(["team"], kinds=["node"])} == {
            "user:alice",
            "user:bob",
        }

    def test_the_same_id_from_two_sources_is_two_pieces_and_a_new_version_replaces(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        llm, _ = serve(*(say(pieces(piece(content=text))) for text in ("one", "two", "three")))
        for text, source in (("1", "a.txt"), ("2", "b.txt"), ("3", "a.txt")):
            take(llm, text, source=source)
        assert sorted(item.text for item in kb.items(["team"], kinds=["node"])) == ["three", "two"]

    def test_a_dry_run_stores_nothing_and_its_record_can_be_loaded(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        llm, server = serve(say())
        result = take(llm, dry_run=True)
        assert (result.layers["pieces"][0]["piece_id"], kb.maintenance.stats().spaces) == (
            "warm-start",
            (),
        )
        again = take(llm)
        assert (again.reused, again.record, again.report.added, len(server.requests)) == (
            True,
            result.record,
            3,
            1,
        )


class TestSecrets:
    def test_a_text_with_a_secret_reaches_neither_the_model_nor_a_record(
        self, kb: knowloom.Engine, take: Take, serve: Serve, tmp_path: Path
    ) -> None:
        llm, server = serve(say())
        with pytest.raises(Invalid, match=r"line 2 contains .* \(rule 'github-token'\)") as caught:
            take(llm, f"{TEXT}\nDeploy with {TOKEN} as ever.")
        assert (caught.value.code, TOKEN in str(caught.value)) == ("secret", False)
        assert (
            server.requests,
            (tmp_path / "records").exists(),
            kb.maintenance.stats().spaces,
        ) == (
            [],
            False,
            (),
        )

    def test_a_secret_in_the_answer_is_skipped_with_the_name_of_its_rule(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        layers = {
            "metadata": {"user:alice": {"entity_type": "user", "properties": {"login": TOKEN}}},
            "pieces": [PIECE, piece(piece_id="leak", content=f"Deploy with {TOKEN}.")],
            "graph": {"nodes": [{"node_id": "system:ci", "node_type": "system", "label": TOKEN}]},
        }
        result = take(serve(say(layers))[0])
        assert [item.id for item in kb.items()] == ["warm-start"]
        assert [
            (skip.what, "rule 'github-token'" in skip.why, TOKEN in skip.why)
            for skip in result.report.skipped
        ] == [(what, True, False) for what in ("user:alice", "leak", "system:ci")]
        assert kb.replay(result.record).skipped == result.report.skipped

    def test_allowed_secrets_are_sent(self, serve: Serve) -> None:
        llm, server = serve(say())
        with knowloom.open("memory:", embedder=None, secrets="allow") as kb:
            assert (
                kb.ingest(f"{TEXT} {TOKEN}", llm=llm, space="team", record_dir=None).report.added
                == 3
            )
        assert TOKEN in server.requests[0].messages[-1]["content"]
