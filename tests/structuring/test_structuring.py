"""Free text taken in with a language model: what is asked, what is accepted, what is stored, and what the record keeps."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import knowloom
from fake_llm import FakeLLM, Say
from knowloom.cli.main import cli
from knowloom.errors import Conflict, Corrupt, Invalid, NotFound, Unavailable
from knowloom.llms.openai import OpenAI
from knowloom.structuring import prompting, schema
from knowloom.structuring.chunking import portions
from secret_samples import made

KEY = "sk-a-very-secret-key"
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
TEXT = "Starting a large-eddy run from a converged steady one saves two fifths of the warm-up."
PIECE = {
    "piece_id": "warm-start",
    "content": "Start a large-eddy run from a converged steady one: it saves two fifths of the warm-up.",
    "knowledge_type": "procedure",
    "info_type": "instructions",
    "tags": ["les", "start"],
    "embedding_text": "warm start of a transient run",
}
GOOD: dict[str, Any] = {
    "metadata": {"user:alice": {"entity_type": "user", "properties": {"team": "aero"}}},
    "pieces": [PIECE],
    "graph": {
        "nodes": [
            {"node_id": "user:alice", "node_type": "user", "label": "Alice"},
            {"node_id": "technique:les", "node_type": "technique", "label": "LES"},
        ],
        "edges": [
            {
                "source_id": "user:alice",
                "target_id": "technique:les",
                "edge_type": "SPECIALIZES_IN",
                "properties": {"piece_id": "warm-start"},
            }
        ],
    },
}

Serve = Callable[..., tuple[OpenAI, FakeLLM]]


def say(layers: object = GOOD, **changes: Any) -> Say:
    return Say(json.dumps(layers), **changes)


def piece(**changes: Any) -> dict[str, Any]:
    return {**PIECE, **changes}


def pieces(*given: dict[str, Any]) -> dict[str, Any]:
    return {"pieces": list(given)}


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def serve(waits: list[float]) -> Iterator[Serve]:
    """Starts a server that follows a script, and a language model that asks it."""
    with ExitStack() as stack:

        def start(*script: Say | str, **settings: Any) -> tuple[OpenAI, FakeLLM]:
            server = stack.enter_context(FakeLLM(script))
            usual: dict[str, Any] = {
                "base_url": server.base_url,
                "model": "fake",
                "api_key": KEY,
                "sleep": waits.append,
            }
            return stack.enter_context(closing(OpenAI(**usual | settings))), server

        yield start


@pytest.fixture
def kb() -> Iterator[knowloom.Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        yield kb


@pytest.fixture
def take(kb: knowloom.Engine, tmp_path: Path) -> Callable[..., knowloom.Ingested]:
    def ingest(llm: Any, text: str = TEXT, **options: Any) -> knowloom.Ingested:
        return kb.ingest(
            text,
            **{
                "llm": llm,
                "space": "team",
                "record_dir": tmp_path / "records",
                "now": NOW,
                **options,
            },
        )

    return ingest


Take = Callable[..., knowloom.Ingested]


def records(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "records").iterdir())


class TestStoring:
    def test_records_lie_beside_the_file_of_the_knowledge_unless_told(
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

    def test_knowledge_that_is_not_a_file_has_no_place_for_records(
        self, kb: knowloom.Engine, serve: Serve
    ) -> None:
        assert kb.ingest(TEXT, llm=serve(say())[0], space="team", now=NOW).record is None

    @pytest.mark.parametrize("now", [0, "", "soon"])
    def test_what_is_no_time_is_not_taken_for_now(
        self, kb: knowloom.Engine, serve: Serve, now: Any
    ) -> None:
        with pytest.raises(Invalid, match="now must be a time such as"):
            kb.ingest(TEXT, llm=serve(say())[0], space="team", now=now)

    def test_a_text_becomes_items_and_edges(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        found = take(serve(say())[0], entity="user:alice", source="notes.txt")
        (item,) = kb.get("warm-start", space="team")
        (edge,) = kb.edges(["team"])
        assert (found.report.added, found.report.edges, found.report.skipped) == (3, 1, ())
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
        found = take(serve(say())[0])
        assert kb.get("user:alice", space="team")[0].text == "Wrote the solver."
        assert [one.where for one in found.report.skipped] == ["metadata['user:alice']"]
        assert len(list(kb.edges(["team"]))) == 1

    def test_two_people_may_choose_the_same_id(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        llm, _ = serve(say(pieces(PIECE)), say(pieces(piece(content="Never start warm."))))
        take(llm, "one", entity="user:alice")
        take(llm, "two", entity="user:bob")
        assert {item.subject for item in kb.items(["team"], kinds=["node"])} == {
            "user:alice",
            "user:bob",
        }

    def test_two_files_may_choose_the_same_id_and_a_new_version_of_a_file_replaces(
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
        found = take(llm, dry_run=True)
        assert (found.layers["pieces"][0]["piece_id"], kb.stats().spaces) == ("warm-start", ())
        again = take(llm)
        assert (again.reused, again.record, again.report.added, len(server.requests)) == (
            True,
            found.record,
            3,
            1,
        )


class TestAsking:
    def test_the_prompt_has_the_rules_the_entity_and_the_text(
        self, take: Take, serve: Serve
    ) -> None:
        llm, server = serve(say())
        take(llm, entity="user:alice")
        system, user = server.requests[0].messages
        assert (system["role"], user["role"], server.requests[0].body["temperature"]) == (
            "system",
            "user",
            0.0,
        )
        assert all(
            word in system["content"]
            for word in (
                "metadata",
                "pieces",
                "graph",
                *schema.KNOWLEDGE_TYPES,
                "passwords",
                "API keys",
            )
        )
        assert "user:alice" in user["content"]
        assert user["content"].endswith(TEXT)

    @pytest.mark.parametrize(
        "around",
        [
            "JSON",
            "```json\nJSON\n```",
            "Here is {it}:\nJSON\nDone.",
            '<think>{"a": 1} or so</think>\nJSON',
        ],
    )
    def test_what_stands_around_the_json_does_not_matter(
        self, around: str, take: Take, serve: Serve
    ) -> None:
        llm, server = serve(Say(around.replace("JSON", json.dumps(GOOD))))
        assert take(llm).report.added == 3
        assert len(server.requests) == 1

    @pytest.mark.parametrize(
        ("bad", "complaint"),
        [
            ('{"pieces": [', "not JSON: "),
            ("I am sorry, I cannot do that.", "no JSON object in the answer 'I am sorry"),
            ("", "the answer is empty"),
            ('[{"piece_id": "x"}]', "is a JSON list"),
            ('{"pieces": []} {"pieces": []}', "more than one JSON object"),
            ('{"pieces": [], "pieces": []}', "'pieces' stands twice"),
            (
                '{"metadata": {"x": {"entity_type": "y", "properties": {"n": NaN}}}}',
                "NaN is not a number",
            ),
            (
                json.dumps(pieces(piece(knowledge_type="Wisdom"))),
                "pieces[0].knowledge_type: must be one of fact, instruction",
            ),
            ('{"pieces": []}', "nothing was extracted"),
        ],
    )
    def test_a_wrong_answer_is_asked_for_again_with_the_complaint(
        self, bad: str, complaint: str, take: Take, serve: Serve
    ) -> None:
        llm, server = serve(Say(bad), say())
        assert take(llm).report.added == 3
        said, told = server.requests[1].messages[-2:]
        assert (said["role"], said["content"]) == ("assistant", bad or "(nothing)")
        assert complaint in told["content"]

    def test_after_the_last_retry_a_refusal_is_an_error_and_nothing_is_stored(
        self, kb: knowloom.Engine, take: Take, serve: Serve, tmp_path: Path
    ) -> None:
        llm, server = serve(*[Say(None, refusal="I'm sorry, I can't help with that.")] * 3)
        with pytest.raises(
            Unavailable, match=r"no usable answer in 3 attempts.*I'm sorry, I can't help"
        ) as caught:
            take(llm, max_retries=2)
        assert (caught.value.code, len(server.requests), kb.stats().spaces) == (
            "unstructured",
            3,
            (),
        )
        (record,) = records(tmp_path)
        assert json.loads((record / "record.json").read_text())["error"] == str(caught.value)
        assert len(list((record / "artifacts").iterdir())) == 3
        assert not (record / "structured.json").exists()

    def test_after_the_last_retry_valid_entries_are_stored_and_the_others_reported(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        mixed = pieces(PIECE, piece(piece_id="Not Kebab", content="x"))
        worse = pieces(PIECE, piece(piece_id="Not Kebab"), piece(piece_id="b", content=""))
        found = take(serve(say(mixed), say(worse))[0], max_retries=1)
        assert [item.id for item in kb.items(["team"])] == ["warm-start"]
        assert [(one.where, one.what) for one in found.report.skipped] == [
            ("portion 1: pieces[1].piece_id", "'Not Kebab'")
        ]

    def test_an_answer_that_was_cut_off_is_asked_for_in_halves(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        text = "\n\n".join(f"Paragraph {number}. " + "word " * 100 for number in range(4))
        llm, server = serve(
            Say('{"pieces": [{"pie', "length"),
            say(pieces(PIECE)),
            say(pieces(piece(piece_id="other", content="Other."))),
        )
        assert take(llm, text).report.added == 2
        asked = [request.messages[1]["content"] for request in server.requests]
        assert ["Paragraph 0" in one for one in asked] == [True, True, False]
        assert ["Paragraph 3" in one for one in asked] == [True, False, True]

    def test_a_short_text_whose_answers_are_all_cut_off_is_a_clear_error(
        self, take: Take, serve: Serve
    ) -> None:
        with pytest.raises(Unavailable, match="cut off at the model's length limit"):
            take(serve(*[Say('{"pieces": [{"pie', "length")] * 2)[0], max_retries=1)

    def test_a_long_text_is_asked_about_in_portions_and_namesakes_are_told_apart(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        text = "\n".join(f"# Part {number}\n\n" + "word " * 100 for number in range(3))
        other = {
            **pieces(piece(content="Another thing.")),
            "graph": {"nodes": GOOD["graph"]["nodes"], "edges": GOOD["graph"]["edges"]},
        }
        llm, server = serve(
            say(),
            say(other),
            say(pieces(piece(piece_id="renamed", content=f"  {PIECE['content']}\n"))),
        )
        found = take(llm, text, max_chars=600)
        assert len(server.requests) == 3
        assert {item.id for item in kb.items(["team"], kinds=["node"])} == {
            "warm-start",
            "warm-start-2",
        }
        assert [edge["properties"] for edge in found.layers["graph"]["edges"]] == [
            {"piece_id": "warm-start"}
        ]

    def test_a_portion_with_nothing_in_it_does_not_stop_the_others(
        self, take: Take, serve: Serve
    ) -> None:
        text = "\n".join(f"# Part {number}\n\n" + "word " * 100 for number in range(2))
        found = take(serve(say({"pieces": []}), say())[0], text, max_chars=600, max_retries=0)
        assert (found.report.added, [one.where for one in found.report.skipped]) == (
            3,
            ["portion 1: pieces"],
        )

    def test_a_text_of_which_nothing_is_valid_is_an_error(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        with pytest.raises(
            Unavailable,
            match=r"no usable answer in 1 attempts, portion 1: pieces\[0\]\.content: must be a text",
        ):
            take(serve(say(pieces(piece(content=""))))[0], max_retries=0)
        assert kb.stats().spaces == ()


class TestTheServer:
    def test_a_busy_server_is_asked_again_when_it_says(
        self, take: Take, serve: Serve, waits: list[float]
    ) -> None:
        assert take(serve("429 after 7", "503", say())[0]).report.added == 3
        assert waits == [7.0, 1.0]

    def test_a_wrong_key_is_not_tried_twice_and_never_shown(
        self, take: Take, serve: Serve, tmp_path: Path
    ) -> None:
        llm, server = serve("401 echoing the key")
        with pytest.raises(Unavailable, match="status 401") as caught:
            take(llm)
        assert (
            len(server.requests),
            KEY in str(caught.value),
            server.requests[0].authorization,
        ) == (1, False, f"Bearer {KEY}")
        assert not [
            file for file in tmp_path.rglob("*") if file.is_file() and KEY in file.read_text()
        ]

    def test_a_server_that_never_answers_is_named_with_the_time_limit(
        self, take: Take, serve: Serve, tmp_path: Path
    ) -> None:
        with pytest.raises(Unavailable, match=r"fake at 127.0.0.1: no answer within 0.05 s"):
            take(serve("slow", timeout_s=0.05, retries=0)[0])
        assert (
            "no answer within"
            in json.loads((records(tmp_path)[0] / "record.json").read_text())["error"]
        )

    @pytest.mark.parametrize(
        ("step", "message"),
        [
            ("garbage", "not JSON"),
            ("no choices", "lacks choices"),
            ("content is a list", "not text but list"),
            ("drop connection", "no connection"),
        ],
    )
    def test_answers_of_no_use_are_errors(
        self, step: str, message: str, take: Take, serve: Serve
    ) -> None:
        with pytest.raises(Unavailable, match=message):
            take(serve(step, retries=0)[0])

    def test_a_refusal_that_repeats_the_text_does_not_show_it(
        self, take: Take, serve: Serve
    ) -> None:
        with pytest.raises(Unavailable) as caught:
            take(serve("400 echoing the text")[0])
        assert "large-eddy" not in str(caught.value)

    def test_a_closed_model_says_so(self, serve: Serve, take: Take) -> None:
        llm, _ = serve()
        llm.close()
        with pytest.raises(Unavailable, match="closed"):
            take(llm)

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("openai:", "no model"),
            ("openai:m@ftp://x", "no http address"),
            ("magic:m", "known: openai"),
            ("", "openai:model"),
        ],
    )
    def test_a_wrong_name_is_refused(self, name: str, message: str) -> None:
        with pytest.raises(Invalid, match=message):
            knowloom.open_llm(name)


class TestChecking:
    @pytest.mark.parametrize(
        ("change", "place"),
        [
            ({"extra": 1}, "extra"),
            ({"metadata": []}, "metadata"),
            ({"metadata": {"User Alice": {"entity_type": "user"}}}, "metadata['User Alice']"),
            (
                {"metadata": {"user:alice": {"properties": {}}}},
                "metadata['user:alice'].entity_type",
            ),
            (
                {"metadata": {"user:alice": {"entity_type": "user", "properties": []}}},
                "metadata['user:alice'].properties",
            ),
            ({"pieces": {}}, "pieces"),
            ({"pieces": ["x"]}, "pieces[0]"),
            ({"pieces": [piece(piece_id="warmStart")]}, "pieces[0].piece_id"),
            ({"pieces": [piece(piece_id="user:warm")]}, "pieces[0].piece_id"),
            ({"pieces": [piece(content=" ")]}, "pieces[0].content"),
            ({"pieces": [piece(knowledge_type="Fact")]}, "pieces[0].knowledge_type"),
            ({"pieces": [piece(info_type=None)]}, "pieces[0].info_type"),
            ({"pieces": [piece(tags="a")]}, "pieces[0].tags"),
            ({"pieces": [piece(tags=["a", 1])]}, "pieces[0].tags[1]"),
            ({"pieces": [piece(entity_id="user:nobody")]}, "pieces[0].entity_id"),
            ({"pieces": [piece(titel="x")]}, "pieces[0].titel"),
            ({"pieces": [PIECE, PIECE]}, "pieces[1].piece_id"),
            ({"graph": {"links": []}}, "graph.links"),
            ({"graph": {"nodes": [{"node_id": "les", "label": "x"}]}}, "graph.nodes[0].node_type"),
            (
                {
                    "graph": {
                        "edges": [{"source_id": "user:alice", "target_id": "x", "edge_type": "T"}]
                    }
                },
                "graph.edges[0].target_id",
            ),
            (
                {"graph": {"edges": [{"source_id": "user:alice", "target_id": "user:alice"}]}},
                "graph.edges[0].edge_type",
            ),
            (
                {
                    "graph": {
                        "edges": [
                            {
                                "source_id": "user:alice",
                                "target_id": "user:alice",
                                "edge_type": "T",
                                "properties": {"piece_id": "no"},
                            }
                        ]
                    }
                },
                "graph.edges[0].properties.piece_id",
            ),
        ],
    )
    def test_every_complaint_names_its_place(self, change: dict[str, Any], place: str) -> None:
        given = {name: layer for name, layer in GOOD.items() if name != "graph"} | change
        assert place in [one.where for one in schema.checked(given)[1]]

    def test_what_is_right_has_no_complaints_and_stays_as_it_is(self) -> None:
        assert schema.checked(GOOD) == (GOOD, [])
        assert schema.checked(pieces(piece(piece_id="überblick-2", info_type="anything")))[1] == []

    def test_deeply_nested_json_is_a_complaint(self) -> None:
        with pytest.raises(Invalid, match="not JSON"):
            prompting.parsed('{"a": ' + "[" * 100_000)


class TestSecrets:
    TOKEN = made("github-token")[0]

    def test_a_text_with_a_secret_reaches_neither_the_model_nor_a_record(
        self, kb: knowloom.Engine, take: Take, serve: Serve, tmp_path: Path
    ) -> None:
        llm, server = serve(say())
        with pytest.raises(Invalid, match=r"line 2 holds .* \(rule 'github-token'\)") as caught:
            take(llm, f"{TEXT}\nDeploy with {self.TOKEN} as ever.")
        assert (caught.value.code, self.TOKEN in str(caught.value)) == ("secret", False)
        assert (server.requests, (tmp_path / "records").exists(), kb.stats().spaces) == (
            [],
            False,
            (),
        )

    def test_a_secret_in_the_answer_is_left_out_by_the_name_of_its_rule(
        self, kb: knowloom.Engine, take: Take, serve: Serve
    ) -> None:
        layers = {
            "metadata": {
                "user:alice": {"entity_type": "user", "properties": {"login": self.TOKEN}}
            },
            "pieces": [PIECE, piece(piece_id="leak", content=f"Deploy with {self.TOKEN}.")],
            "graph": {
                "nodes": [{"node_id": "system:ci", "node_type": "system", "label": self.TOKEN}]
            },
        }
        found = take(serve(say(layers))[0])
        assert [item.id for item in kb.items()] == ["warm-start"]
        assert [
            (one.what, "rule 'github-token'" in one.why, self.TOKEN in one.why)
            for one in found.report.skipped
        ] == [(what, True, False) for what in ("user:alice", "leak", "system:ci")]
        assert kb.replay(found.record).skipped == found.report.skipped

    def test_who_allows_secrets_may_send_them(self, serve: Serve) -> None:
        llm, server = serve(say())
        with knowloom.open("memory:", embedder=None, secrets="allow") as kb:
            assert (
                kb.ingest(
                    f"{TEXT} {self.TOKEN}", llm=llm, space="team", record_dir=None
                ).report.added
                == 3
            )
        assert self.TOKEN in server.requests[0].messages[-1]["content"]


class TestPortions:
    def test_a_short_text_is_one_portion(self) -> None:
        assert portions("# A\n\none\n\n# B\n\ntwo\n", 1000) == ["# A\n\none\n\n# B\n\ntwo"]

    def test_a_long_text_is_parted_at_headings(self) -> None:
        text = "\n".join(f"# {name}\n\n{'word ' * 12}\n" for name in "ABC")
        assert [portion[:3] for portion in portions(text, 100)] == ["# A", "# B", "# C"]

    def test_a_code_block_stays_whole_whatever_is_in_it(self) -> None:
        code = "```python\n# no heading\n\n" + "x = 1\n\n" * 50 + "```"
        assert code in portions(f"before\n\n{code}\n\nafter " + "word " * 50, 100)

    def test_nothing_is_lost(self) -> None:
        text = "# A\none\n\n" + "line\n" * 100 + "\n~~~\ncode\n~~~\nend"
        assert "".join("".join(portions(text, 50)).split()) == "".join(text.split())
        assert max(len(portion) for portion in portions(text, 50)) <= 50


class TestRecords:
    def test_a_record_has_everything_and_a_name_of_time_and_content(
        self, take: Take, serve: Serve, tmp_path: Path
    ) -> None:
        found = take(serve(Say("no"), say())[0], entity="user:alice", source="notes.txt")
        (folder,) = records(tmp_path)
        row = json.loads((folder / "record.json").read_text())
        assert (found.record, folder.name) == (folder, f"20260131T120000000000Z-{row['hash'][:12]}")
        assert sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()) == [
            "artifacts/answer-01-1.txt", "artifacts/answer-01-2.txt", "artifacts/loaded.json", "input.txt", "record.json", "structured.json",
        ]  # fmt: skip
        assert (folder / "input.txt").read_text() == TEXT
        assert (row["model"], row["time"], row["space"], row["entity"], row["error"]) == (
            "openai:fake@127.0.0.1",
            "2026-01-31T12:00:00Z",
            "team",
            "user:alice",
            "",
        )
        assert json.loads((folder / "artifacts" / "loaded.json").read_text())["added"] == 3

    def test_a_record_is_replayed_without_a_model(self, take: Take, serve: Serve) -> None:
        found = take(serve(say())[0], entity="user:alice")
        assert found.record is not None
        with knowloom.open("memory:", embedder=None) as other:
            assert other.replay(found.record).added == 3
            assert other.replay(found.record).unchanged == 2  # the known node is left alone
            assert other.replay(found.record, space="copy").added == 3
            assert {item.id for item in other.items(["copy"])} == {
                "user:alice",
                "technique:les",
                "warm-start",
            }

    def test_the_same_text_is_taken_in_once(
        self, take: Take, serve: Serve, kb: knowloom.Engine, tmp_path: Path
    ) -> None:
        llm, server = serve(say(), say(), say())
        take(llm)
        kb.delete("warm-start", space="team")
        found = take(llm)
        assert (
            found.duplicate,
            found.report.added,
            len(server.requests),
            kb.get("warm-start", space="team"),
        ) == (True, 0, 1, [])
        assert take(llm, space="elsewhere").report.added == 3
        assert take(llm, again=True).report.added == 1
        assert len(records(tmp_path)) == 3

    def test_a_text_that_failed_is_asked_about_again(self, take: Take, serve: Serve) -> None:
        llm, _ = serve("400", say())
        with pytest.raises(Unavailable):
            take(llm)
        assert take(llm).report.added == 3

    def test_the_record_is_there_before_the_store_changes(
        self, serve: Serve, tmp_path: Path
    ) -> None:
        llm, server = serve(say())
        wanted: dict[str, Any] = {
            "llm": llm,
            "space": "team",
            "record_dir": tmp_path / "records",
            "now": NOW,
        }
        closed = knowloom.open(str(tmp_path / "closed.db"), embedder=None)
        closed.close()
        with pytest.raises(Unavailable):
            closed.ingest(TEXT, **wanted)
        assert (records(tmp_path)[0] / "structured.json").is_file()
        with knowloom.open(str(tmp_path / "open.db"), embedder=None) as fresh:
            assert fresh.ingest(TEXT, **wanted).reused
            assert fresh.get("warm-start", space="team")
        assert len(server.requests) == 1

    def test_a_failed_or_damaged_or_missing_record_is_not_replayed(
        self, take: Take, serve: Serve, kb: knowloom.Engine, tmp_path: Path
    ) -> None:
        llm, _ = serve("400", say())
        with pytest.raises(Unavailable):
            take(llm)
        (failed,) = records(tmp_path)
        with pytest.raises(Conflict, match="status 400"):
            kb.replay(failed)
        (failed / "record.json").write_text("{")
        with pytest.raises(Corrupt, match="damaged"):
            kb.replay(failed)
        with pytest.raises(NotFound, match=r"no record\.json"):
            kb.replay(tmp_path)

    def test_ctrl_c_leaves_a_record_too(self, take: Take, tmp_path: Path) -> None:
        class Stopped:
            name = "stopped"

            def complete(self, messages: object) -> None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            take(Stopped())
        assert (
            json.loads((records(tmp_path)[0] / "record.json").read_text())["error"]
            == "KeyboardInterrupt"
        )

    def test_an_edited_record_is_checked_again(
        self, take: Take, serve: Serve, kb: knowloom.Engine
    ) -> None:
        folder = take(serve(say())[0], dry_run=True).record
        assert folder is not None
        (folder / "structured.json").write_text(json.dumps(pieces(piece(piece_id="Bad Id"))))
        with pytest.raises(Invalid, match=r"pieces\[0\]\.piece_id"):
            kb.replay(folder)

    def test_a_folder_that_cannot_be_written_is_an_error_and_nothing_is_stored(
        self, take: Take, serve: Serve, kb: knowloom.Engine, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(Unavailable, match="cannot write a check-in record"):
            take(serve(say())[0], record_dir=tmp_path / "file" / "records")
        assert kb.stats().spaces == ()

    @pytest.mark.parametrize(
        ("text", "options", "message"),
        [
            ("", {}, "is empty"),
            (" \n", {}, "is empty"),
            ("a\0b", {}, "binary"),
            ("\ud800", {}, "surrogates"),
            ("x" * 2_000_001, {}, "2,000,001 characters"),
            (b"bytes", {}, "not bytes"),
            (TEXT, {"max_retries": -1}, "max_retries"),
            (TEXT, {"max_chars": 1}, "max_chars"),
            (TEXT, {"space": ""}, "space must not be empty"),
            (TEXT, {"entity": ""}, "entity must not be empty"),
            (TEXT, {"colour": 1}, "no option 'colour'; known: again"),
            (TEXT, {"llm": None}, "open_llm"),
            (TEXT, {"record_dir": 5}, "record_dir must be a path"),
        ],
    )
    def test_what_makes_no_sense_is_refused_before_anything_is_asked(
        self,
        text: Any,
        options: dict[str, Any],
        message: str,
        take: Take,
        serve: Serve,
        tmp_path: Path,
    ) -> None:
        llm, server = serve()
        with pytest.raises(Invalid, match=message):
            take(options.pop("llm", llm), text, **options)
        assert (server.requests, (tmp_path / "records").exists()) == ([], False)


class TestTheCommand:
    @pytest.fixture(autouse=True)
    def folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in [
            name for name in os.environ if name.startswith("KNOWLOOM_") or name == "OPENAI_API_KEY"
        ]:
            monkeypatch.delenv(name)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "notes.txt").write_text(TEXT)

    def run(self, *args: str, server: FakeLLM | None = None, stdin: Any = None) -> Result:
        llm = (
            {}
            if server is None
            else {"KNOWLOOM_LLM": f"openai:fake@{server.base_url}", "KNOWLOOM_LLM_API_KEY": KEY}
        )
        result = CliRunner().invoke(
            cli, args, prog_name="knowloom", input=stdin, env={"KNOWLOOM_EMBEDDER": "none", **llm}
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    @pytest.mark.parametrize("more", [(), ("--dry-run",)])
    def test_the_setting_for_secrets_holds(
        self, serve: Serve, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
    ) -> None:
        _, server = serve(say())
        args = ("ingest", "-", "--space", "team", *more)
        refused = self.run(*args, server=server, stdin=TestSecrets.TOKEN)
        assert (refused.exit_code, "rule 'github-token'" in refused.stderr, server.requests) == (
            1,
            True,
            [],
        )
        monkeypatch.setenv("KNOWLOOM_SECRETS", "allow")
        assert self.run(*args, server=server, stdin=TestSecrets.TOKEN).exit_code == 0

    def test_a_file_is_taken_in_and_again_says_so(self, serve: Serve) -> None:
        _, server = serve(say())
        args = (
            "ingest",
            "notes.txt",
            "--as",
            "user:alice",
            "--space",
            "team",
            "--now",
            "2026-01-31T12:00:00Z",
        )
        first, second = self.run(*args, server=server), self.run(*args, server=server)
        assert (first.exit_code, second.exit_code, len(server.requests)) == (0, 0, 1)
        assert first.stdout.startswith("record: knowledge.db.checkins/20260131T120000000000Z-")
        assert second.stdout.startswith("taken in before, nothing changed")
        assert server.requests[0].authorization == f"Bearer {KEY}"
        assert (
            json.loads(self.run("get", "warm-start", "--space", "team", "--json").stdout)["items"][
                0
            ]["subject"]
            == "user:alice"
        )

    def test_a_dry_run_prints_the_json_and_replay_stores_it(
        self, serve: Serve, tmp_path: Path
    ) -> None:
        _, server = serve(say())
        result = self.run(
            "ingest",
            "-",
            "--space",
            "team",
            "--dry-run",
            "--record-dir",
            "kept",
            server=server,
            stdin=TEXT,
        )
        assert json.loads(result.stdout) == GOOD
        assert not (tmp_path / "knowledge.db").exists()
        (record,) = (tmp_path / "kept").iterdir()
        assert json.loads(self.run("replay", str(record), "--json").stdout)["added"] == 3

    def test_an_error_is_one_line_and_the_record_is_named(self, serve: Serve) -> None:
        _, server = serve("401 echoing the key")
        result = self.run("ingest", "notes.txt", "--space", "team", server=server)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "warning: the record of the run is knowledge.db.checkins/" in result.stderr
        assert "error: fake at 127.0.0.1: status 401" in result.stderr
        assert KEY not in result.output

    def test_one_bad_text_of_several_does_not_stop_the_others(
        self, serve: Serve, tmp_path: Path
    ) -> None:
        (tmp_path / "more.txt").write_text("More.")
        _, server = serve("400", say())
        result = self.run(
            "ingest", "notes.txt", "more.txt", "--space", "team", "--json", server=server
        )
        assert (result.exit_code, "error: notes.txt: fake" in result.stderr) == (1, True)
        assert [one["report"]["added"] for one in json.loads(result.stdout)["texts"]] == [3]

    def test_a_binary_or_missing_file_is_refused_before_anything_is_asked(
        self, serve: Serve, tmp_path: Path
    ) -> None:
        (tmp_path / "image.png").write_bytes(b"\x89PNG\xff\xfe")
        _, server = serve()
        for name, message in (
            ("image.png", "not a UTF-8 text"),
            ("nowhere.txt", "no file 'nowhere.txt'"),
            (".", "cannot be read"),
        ):
            result = self.run("ingest", "notes.txt", name, "--space", "team", server=server)
            assert (result.exit_code, message in result.stderr) == (1, True)
        assert server.requests == []

    def test_without_a_model_it_says_how_to_name_one(self) -> None:
        result = self.run("ingest", "notes.txt", "--space", "team")
        assert (result.exit_code, "KNOWLOOM_LLM" in result.stderr) == (2, True)

    def test_a_dry_run_takes_one_file(self) -> None:
        assert self.run("ingest", "notes.txt", "-", "--space", "team", "--dry-run").exit_code == 2
