"""The templates bullets, timeline and xml, custom templates, and the tiers that may use them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Engine, Forbidden, Invalid, Memory, Provider

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def kb() -> Iterator[Engine]:
    with knowloom.open("memory:", embedder=None) as engine:
        yield engine


@pytest.fixture
def memory(kb: Engine) -> Memory:
    memory = Memory(kb, "home")
    memory.remember("tea", type="fact", created_at=NOW - DAY)
    memory.remember("tea & <milk>\nat four", speaker="Ada", created_at=NOW - 9 * DAY)
    return memory


def render(memory: Memory, template: Any, **options: Any) -> str:
    return memory.build_context("tea", now=NOW, template=template, **options).context


class TestBuiltIn:
    def test_bullets_are_a_list_without_a_heading(self, memory: Memory) -> None:
        assert render(memory, "bullets") == (
            "* tea\n* Ada at 12:00 am on 23 May, 2026: tea & <milk>\n  at four\n"
        )

    def test_a_timeline_is_in_order_of_time(self, memory: Memory) -> None:
        assert render(memory, "timeline") == (
            "Memories in order of time:\n\n"
            "2026-05-23T00:00:00Z Ada: tea & <milk>\n  at four\n"
            "2026-05-31T00:00:00Z tea\n"
        )

    def test_xml_escapes_the_memories(self, memory: Memory) -> None:
        text = render(memory, "xml", include_metadata=True)
        elements = list(ElementTree.fromstring(text))
        assert [(element.get("type"), element.get("confidence")) for element in elements] == [
            ("fact", "0.5"),
            ("memory", "0.5"),
        ]
        assert elements[0].text == "tea"
        assert elements[1].text == (
            "Ada at 12:00 am on 23 May, 2026: tea & <milk>\nat four (speaker: Ada)"
        )

    @settings(max_examples=60, deadline=None)
    @given(
        texts=st.lists(
            st.text("a<>&\"'\x0b\x1f\r\n]\ufffe🧵", min_size=1, max_size=20).filter(str.strip),
            min_size=1,
            max_size=4,
            unique=True,
        ),
        type=st.text("a<>&\"'", max_size=9),
    )
    def test_xml_is_well_formed_whatever_the_memories_contain(
        self, texts: list[str], type: str
    ) -> None:
        with knowloom.open("memory:", embedder=None) as kb:
            memory = Memory(kb, "home")
            for text in texts:
                memory.remember(f"tea {text}", type=type, created_at=NOW)
            rendered = render(memory, "xml", include_relationships=True)
            assert len(list(ElementTree.fromstring(rendered))) == len(texts)

    @pytest.mark.parametrize("template", ["bullets", "timeline", "xml"])
    def test_the_budget_includes_the_template(self, memory: Memory, template: str) -> None:
        count = knowloom.tokens.get_counter("gpt-4").count
        for budget in range(0, 120, 7):
            preview = memory.preview("tea", now=NOW, template=template, token_budget=budget)
            assert preview.token_count == count(preview.context) <= budget


class TestCustom:
    def test_details_take_their_place_in_a_format(self, memory: Memory) -> None:
        template = {"memory_format": "<{{text}}{{details}}>", "line_break": " "}
        assert render(memory, template, include_metadata=True) == (
            "<tea (type: fact, confidence: 0.5, created: 2026-05-31T00:00:00Z)>\n"
            "<Ada: tea & <milk> at four (confidence: 0.5, created: 2026-05-23T00:00:00Z,"
            " speaker: Ada)>"
        )

    @pytest.mark.parametrize("text", ["- {{content}}", "{{ content }}"])
    def test_a_text_in_place_of_a_template_is_refused_with_the_remedy(
        self, memory: Memory, text: str
    ) -> None:
        with pytest.raises(Invalid, match="pass it as memory_format"):
            render(memory, text)

    def test_a_variable_in_single_braces_is_refused(self, memory: Memory) -> None:
        with pytest.raises(Invalid, match=r"'\{content\}', which is not a variable"):
            render(memory, {"memory_format": "{content} {{score}}"})
        assert render(memory, {"memory_format": "{ {{type}} }"}).startswith("{ fact }")

    def test_custom_templates_and_rankers_need_the_tier_enterprise(
        self, kb: Engine, memory: Memory
    ) -> None:
        teams, enterprise = (Memory(kb, "home", tier=tier) for tier in ("teams", "enterprise"))
        custom = {"memory_format": "<{{content}}>"}
        for limited in (teams, enterprise):
            limited.register_template("own", custom)
            limited.register_template("chat", custom)
            limited.register_ranker("own", lambda results, options: results)
        for template in (custom, "own", "chat"):
            with pytest.raises(Forbidden, match="custom templates need tier 'enterprise'"):
                render(teams, template)
            assert "<tea>" in render(enterprise, template)
        rankers: list[Any] = ["own", lambda results, options: results]
        for ranker in rankers:
            with pytest.raises(Forbidden, match="custom rankers need tier 'enterprise'"):
                teams.search("tea", ranker=ranker)
            assert enterprise.search("tea", ranker=ranker, now=NOW)
        assert render(teams, "xml") and teams.search("tea", ranker="recency", now=NOW)


class TestProviderFormats:
    @pytest.mark.parametrize(
        "text",
        [
            "{{ text }}",
            "{{text}}",
            "* {{ entry.text }}",
            "{% for entry in entries %}x{% endfor %}",
            "{{#each entries}}x{{/each}}",
            "{{ text | upper }}",
        ],
    )
    def test_a_template_in_place_of_a_format_string_is_refused(self, kb: Engine, text: str) -> None:
        kb.add(knowloom.Item("a", "s", text="tea"))
        with pytest.raises(Invalid, match=r"prints as it stands: write \{text\}, or pass"):
            Provider(kb, formats={"context": text})

    @pytest.mark.parametrize(
        ("text", "rendered"),
        [
            ("{{{text}}}", "{tea}"),
            ('{{"text": "{text}"}}', '{"text": "tea"}'),
            ("{text} {{}}", "tea {}"),
        ],
    )
    def test_braces_of_a_format_string_are_kept(self, kb: Engine, text: str, rendered: str) -> None:
        kb.add(knowloom.Item("a", "s", text="tea"))
        assert Provider(kb, formats={"context": text})("tea") == {"context": rendered}

    def test_custom_formats_need_the_tier_enterprise(self, kb: Engine) -> None:
        kb.add(knowloom.Item("a", "s", text="tea"))
        formats = {"*": "{text}!"}
        with pytest.raises(Forbidden, match="custom formats need tier 'enterprise', got 'teams'"):
            Provider(kb, formats=formats, tier="teams")("tea")
        assert Provider(kb, formats=formats, tier="enterprise")("tea") == {"context": "tea!"}
        assert Provider(kb, tier="teams")("tea")
