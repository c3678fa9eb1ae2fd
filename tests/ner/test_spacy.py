"""Names found by a spaCy pipeline: titles, edges between texts, and missing pipelines.

The pipeline is a rule-based one, built here. The test of a trained pipeline is skipped, with a
message, where none is installed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import spacy
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Invalid, Item, MissingExtra
from knowloom.cli.main import cli
from knowloom.engine import Engine
from knowloom.linking import name_edges as batch
from knowloom.linking import name_finders
from knowloom.linking.name_finders import FinderResolver
from knowloom.ner.spacy import SpacyNames

TRAINED = "en_core_web_sm"
PATTERNS = [
    {"label": "PRODUCT", "pattern": "blue ledger"},
    {"label": "PRODUCT", "pattern": "night shift"},
    {"label": "PERSON", "pattern": "mia berg"},
    {"label": "DATE", "pattern": "next tuesday"},
]


def pipeline(folder: Path, patterns: list[dict[str, str]] = PATTERNS) -> str:
    nlp = spacy.blank("en")
    ruler: Any = nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    ruler.add_patterns(patterns)
    nlp.to_disk(folder)
    return f"spacy:{folder}"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return pipeline(tmp_path_factory.mktemp("models") / "my rules")


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path, model: str) -> Iterator[Engine]:
    with knowloom.open(
        "memory:" if request.param == "memory" else str(tmp_path / "knowloom.db"),
        embedder=None,
        names=model,
    ) as opened:
        yield opened


def item(id: str, text: str, title: str = "") -> Item:
    return Item(id, "s", title=title, text=text)


def automatic_edges(kb: Engine) -> set[tuple[str, str, str, str]]:
    return {
        (edge.source, edge.type, edge.target, str(edge.properties["name"]))
        for edge in kb.edges(["s"], automatic=True)
    }


def test_texts_that_share_a_rare_name_without_capitals_are_linked(kb):
    kb.add([item("a", "we ask the blue ledger first"), item("b", "every blue ledger is audited")])
    assert automatic_edges(kb) == {("a", "shares", "b", "blue ledger")}
    with knowloom.open("memory:", embedder=None) as plain:
        plain.add(
            [item("a", "we ask the blue ledger first"), item("b", "every blue ledger is audited")]
        )
        assert automatic_edges(plain) == set()


def test_an_item_without_a_title_is_named_by_the_start_of_its_text(kb):
    kb.add(
        [
            item("a", "the Blue Ledger keeps every claim"),
            item("b", "Ask the Blue Ledger.", title="Claims"),
        ]
    )
    assert automatic_edges(kb) == {("b", "mentions", "a", "blue ledger")}
    kb.add(
        item("a", "the Blue Ledger keeps every claim", title="Claim book")
    )  # a title counts more
    assert automatic_edges(kb) == {("a", "shares", "b", "blue ledger")}


def test_dates_and_numbers_create_no_edges(kb):
    kb.add([item("a", "we meet next tuesday"), item("b", "come next tuesday")])
    assert automatic_edges(kb) == set()


words = st.sampled_from(
    [
        "blue ledger",
        "Blue Ledger",
        "night shift",
        "mia berg",
        "Mia Berg's",
        "next tuesday",
        "asks",
        "the",
        "Ada",
        "\n\n",
    ]
)
texts = st.lists(words, max_size=4).map(lambda chosen_words: " ".join([*chosen_words, "ends"]))
steps = st.lists(
    st.tuples(
        st.sampled_from("abcde"),
        st.none() | st.tuples(texts, st.sampled_from(["", "Ada", "Night Shift"])),
    ),
    max_size=8,
)


@pytest.mark.parametrize("url", ["memory:", "file"])
def test_incremental_linking_equals_a_rebuild(url, model, tmp_path):
    finder = SpacyNames.open(model.partition(":")[2])
    count = iter(range(10_000))

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(steps)
    def check(changes: list[tuple[str, tuple[str, str] | None]]) -> None:
        with knowloom.open(
            "memory:" if url == "memory:" else str(tmp_path / f"{next(count)}.db"),
            embedder=None,
            names=finder,
        ) as kb:
            kb.add(item("z", "we close"))
            for id, text in changes:
                kb.delete(id, space="s") if text is None else kb.add(item(id, *text))
                assert automatic_edges(kb) == {
                    (edge.source, edge.type, edge.target, edge.properties["name"])
                    for edge in batch.build_name_edges(kb.items(["s"]), finder)
                }
            before = automatic_edges(kb)
            kb.maintenance.relink()
            assert automatic_edges(kb) == before

    check()


def test_the_pipeline_is_stored_with_the_knowledge(tmp_path, model):
    path = str(tmp_path / "k.db")
    with knowloom.open(path, embedder=None, names=model) as kb:
        kb.add(item("a", "the night shift begins"))
    with knowloom.open(path, embedder=None) as kb:
        kb.add(item("b", "our night shift ends"))
        assert automatic_edges(kb) == {("a", "shares", "b", "night shift")}
    with knowloom.open(path, embedder=None, names="builtin") as kb:
        kb.add(item("c", "nothing"))
        assert automatic_edges(kb) == set()


def test_changed_rules_in_the_pipeline_relink_everything(tmp_path):
    path, folder = str(tmp_path / "k.db"), tmp_path / "rules"
    with knowloom.open(path, embedder=None, names=pipeline(folder, PATTERNS[:1])) as kb:
        kb.add([item("a", "a night shift"), item("b", "the last night shift")])
        assert automatic_edges(kb) == set()
    with knowloom.open(path, embedder=None, names=pipeline(folder, PATTERNS[:2])) as kb:
        kb.maintenance.link()
        assert automatic_edges(kb) == {("a", "shares", "b", "night shift")}


def test_a_text_that_did_not_change_is_not_read_twice(kb, monkeypatch):
    seen: list[str] = []
    find: Callable[..., Any] = SpacyNames.find
    monkeypatch.setattr(
        SpacyNames, "find", lambda self, text: seen.append(text) or find(self, text)
    )
    kb.add(
        [item(f"t{n}", f"Ask the Night Shift, number {n}.", title=f"Page {n}") for n in range(5)]
    )
    assert len(seen) == 5
    kb.add(item("new", "who works late", title="Night Shift"))
    assert seen[5:] == ["who works late"]
    assert {
        source
        for source, type, target, _ in automatic_edges(kb)
        if (type, target) == ("mentions", "new")
    } == {f"t{n}" for n in range(5)}


def test_names_are_normalised_like_titles():
    class Finder:
        fingerprint = "mine@1"

        def find(self, text: str) -> list[tuple[int, str]]:
            return [
                (0, "The"),
                (4, "Ada’s  Desk"),
                (20, "x" * 3000),
                (30, "Overview"),
                (40, "ada's desk"),
            ]

    names = name_finders.run_finder(Finder(), "The Ada")
    assert names == name_finders.FinderNames(("ada's desk", "x" * 200), "ada's desk")
    assert (
        name_finders.run_finder_cached(
            Finder(), "The Ada", ["c:other", name_finders.encode_names("The Ada", names)]
        )
        == names
    )


def test_an_unusable_pipeline_is_reported_with_the_remedy(tmp_path):
    with pytest.raises(MissingExtra, match="python -m spacy download xx_no_such_model"):
        knowloom.open("memory:", embedder=None, names="spacy:xx_no_such_model")
    spacy.blank("en").to_disk(tmp_path / "empty")
    with pytest.raises(Invalid, match="must have one of ner, entity_ruler"):
        knowloom.open("memory:", embedder=None, names=f"spacy:{tmp_path / 'empty'}")
    (tmp_path / "broken").mkdir()
    with pytest.raises(Invalid, match="cannot load the spaCy pipeline"):
        knowloom.open("memory:", embedder=None, names=f"spacy:{tmp_path / 'broken'}")
    with pytest.raises(Invalid, match="unknown name finder 'nltk'; available: spacy"):
        knowloom.open("memory:", embedder=None, names="nltk:x")
    for wrong in ("spacy:", "spacy"):
        with pytest.raises(Invalid, match="spacy:en_core_web_sm"):
            knowloom.open("memory:", embedder=None, names=wrong)
    with pytest.raises(Invalid, match="'builtin'"):
        FinderResolver("capitals")


def test_without_the_package_the_extra_is_named():
    script = "import sys; sys.modules['spacy'] = None\nimport knowloom\n"
    script += (
        "try: knowloom.open('memory:', embedder=None, names='spacy:x')\nexcept"
        " knowloom.MissingExtra as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert (
        done.stdout
        == "name finder 'spacy' needs a package that is not installed (spacy): pip install"
        " 'knowloom[spacy]'\n"
    )


def test_writes_succeed_without_the_pipeline_and_report_it_missing(tmp_path):
    path, folder = str(tmp_path / "k.db"), tmp_path / "rules"
    with knowloom.open(path, embedder=None, names=pipeline(folder)) as kb:
        kb.add([item("a", "a night shift"), item("b", "the last night shift")])
    folder.rename(tmp_path / "elsewhere")
    with knowloom.open(path, embedder=None) as kb:
        report = kb.add(item("c", "no night shift"))
        assert (report.added, len(report.problems)) == (1, 1)
        assert "links are not up to date: no spaCy pipeline" in report.problems[0]
        assert automatic_edges(kb) == {("a", "shares", "b", "night shift")}


def test_the_setting_names_the_pipeline_for_the_shell(tmp_path, model):
    rows = tmp_path / "s.jsonl"
    rows.write_text(
        '{"id": "a", "text": "the night shift begins"}\n{"id": "b", "text": "our night shift'
        ' ends"}\n'
    )
    env = {
        "KNOWLOOM_STORE": str(tmp_path / "k.db"),
        "KNOWLOOM_EMBEDDER": "none",
        "KNOWLOOM_NAMES": model,
    }
    for args in (["load", str(rows), "--space", "s"], ["links", "rebuild"]):
        assert CliRunner().invoke(cli, args, env=env).exit_code == 0
    listed = CliRunner().invoke(cli, ["links", "list", "--space", "s"], env=env)
    assert "shares" in listed.output
    failed = CliRunner().invoke(
        cli, ["links", "rebuild"], env=env | {"KNOWLOOM_NAMES": "spacy:xx_no_such_model"}
    )
    assert (failed.exit_code, "python -m spacy download" in failed.output) == (1, True)


@pytest.mark.skipif(
    not spacy.util.is_package(TRAINED),
    reason=f"{TRAINED} is not installed: names of a TRAINED pipeline are NOT tested here",
)
def test_a_trained_pipeline_finds_names(tmp_path):
    with knowloom.open("memory:", embedder=None, names=f"spacy:{TRAINED}") as kb:
        kb.add(
            [
                item("a", "We met Angela Merkel in Berlin."),
                item("b", "A speech that Angela Merkel gave."),
            ]
        )
        assert ("a", "shares", "b", "angela merkel") in automatic_edges(kb)
        before = automatic_edges(kb)
        kb.maintenance.relink()
        assert automatic_edges(kb) == before
