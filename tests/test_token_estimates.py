"""Models without a known tokenizer: an estimate that every answer reports, or a strict bound."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import knowloom
from knowloom import Client, Engine, GraphContext, Item, Memory, Provider
from knowloom.capabilities.assembler.strategies import build_assembler
from knowloom.errors import Invalid
from knowloom.tokens import ESTIMATE, UPPER_BOUND, estimate_notices, get_counter
from live_server import serving
from paths import ROOT
from text_strategies import any_text

MODEL = "claude-sonnet-4"
MINILM = str(ROOT / "src/knowloom/embedders/minilm_files/tokenizer.json")
TEXT = "Refunds over 100 dollars need the approval of a team lead, in writing. " * 12


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("estimates") / "store.db"
    with knowloom.open(str(path), embedder=None) as engine:
        engine.add(
            [
                *(Item(f"n{n}", "s", title=f"Refund {n}", text=f"{n}. {TEXT}") for n in range(5)),
                Item("e", "s", "entity", "System", "Refund desk", TEXT),
                Item("m", "s", "memory", "fact", text=TEXT),
            ]
        )
        yield engine


@pytest.fixture(scope="module")
def client(engine: Engine) -> Iterator[Client]:
    with serving(engine) as address, Client(address) as client:
        yield client


@pytest.fixture(params=["engine", "client"])
def kb(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def provide(kb: Any, **options: Any) -> Any:
    if isinstance(kb, Client):
        return kb.provide("refund", spaces=["s"], **options)
    return Provider(kb, spaces=["s"], **options).provide("refund")


def assemble(kb: Any, **options: Any) -> Any:
    call = kb.assemble if isinstance(kb, Client) else build_assembler(kb, {}).assemble
    return call("refund", spaces=("s",), **options)


def remembered(kb: Any, max_tokens: int, **options: Any) -> Any:
    memory = kb.memory("s") if isinstance(kb, Client) else Memory(kb, "s")
    return memory.build_context("refund", token_budget=max_tokens, mode="bm25", **options)


CALLS: dict[str, Callable[..., Any]] = {
    "context": lambda kb, **options: kb.context("refund", spaces=["s"], **options),
    "explain": lambda kb, **options: kb.explain("refund", spaces=["s"], **options),
    "read": lambda kb, **options: kb.read("n0", space="s", **options),
    "graph": lambda kb, **options: GraphContext(kb, ["s"]).for_query("refund", **options),
    "provide": provide,
    "assemble": assemble,
    "memory": remembered,
}


def size(answer: Any) -> int:
    return int(getattr(answer, "tokens", 0) or getattr(answer, "token_count", 0))


def text(answer: Any) -> str:
    if hasattr(answer, "sections") and not callable(answer.sections):
        return "".join(answer.sections.values())
    return str(getattr(answer, "context", "") or answer.text)


@pytest.mark.parametrize("name", CALLS)
def test_every_answer_reports_that_its_tokens_are_estimated(name: str, kb: Any) -> None:
    estimated = CALLS[name](kb, max_tokens=400, model=MODEL)
    assert [problem.code for problem in estimated.degraded].count("estimated_tokens") == 1
    assert 0 < size(estimated) <= 400
    exact = CALLS[name](kb, max_tokens=400)
    assert "estimated_tokens" not in [problem.code for problem in exact.degraded]


@pytest.mark.parametrize("name", CALLS)
def test_strict_counts_a_token_per_byte_and_reports_nothing(name: str, kb: Any) -> None:
    for options in ({"model": MODEL, "strict": True}, {"model": f"strict:{MODEL}"}):
        answer = CALLS[name](kb, max_tokens=1100, **options)
        assert size(answer) == len(text(answer).encode()) <= 1100
        assert "estimated_tokens" not in [problem.code for problem in answer.degraded]


@pytest.mark.parametrize("name", CALLS)
def test_strict_is_true_or_false(name: str, kb: Any) -> None:
    with pytest.raises(Invalid, match="strict"):
        CALLS[name](kb, max_tokens=400, model=MODEL, strict="yes")


def test_an_estimated_context_holds_more_than_a_bounded_one(engine: Engine) -> None:
    estimated, bounded = (
        engine.context("refund", spaces=["s"], max_tokens=600, model=MODEL, strict=strict)
        for strict in (False, True)
    )
    assert len(estimated.text) > 2 * len(bounded.text)
    assert (estimated.stats.token_counter, bounded.stats.token_counter) == (ESTIMATE, UPPER_BOUND)
    assert bounded.query.model == f"strict:{MODEL}"


@given(text=any_text)
def test_the_estimate_is_that_of_cl100k_and_a_fifth(text: str) -> None:
    exact, estimate = get_counter("cl100k").count(text), get_counter(MODEL).count(text)
    assert exact * 1.2 <= estimate < exact * 1.2 + 1


def test_the_notice_names_the_model_and_the_estimate() -> None:
    (notice,) = estimate_notices(MODEL)
    assert (notice.part, notice.severity.value) == ("tokens", "notice")
    assert MODEL in notice.reason and "1.2 times" in notice.reason and "strict" in notice.reason
    known = ("gpt-4", "o200k", MINILM, f"strict:{MODEL}")
    assert [estimate_notices(name) for name in known] == [()] * 4


@pytest.mark.parametrize("name", ["cl100k", "o200k"])
@given(text=any_text)
def test_tokens_are_encoded_and_decoded_without_loss(name: str, text: str) -> None:
    counter = get_counter(name)
    encoded = counter.encode(text)
    assert (counter.decode(encoded), len(encoded)) == (text, counter.count(text))


def test_a_tokenizer_file_encodes_and_decodes() -> None:
    counter = get_counter(MINILM)
    assert counter.encode("hello world") == [7592, 2088]
    assert counter.decode([7592, 2088]) == "hello world"


@pytest.mark.parametrize("name", ["cl100k", MINILM])
@pytest.mark.parametrize("bad", [[10**9], [-1], [2**70], [1.5], "abc", None])
def test_unknown_tokens_are_refused(name: str, bad: Any) -> None:
    with pytest.raises(Invalid, match="tokens must be a list of integers"):
        get_counter(name).decode(bad)


@pytest.mark.parametrize("name", [MODEL, f"strict:{MODEL}"])
def test_without_a_tokenizer_there_are_no_tokens_to_encode(name: str) -> None:
    counter = get_counter(name)
    assert not counter.is_exact
    for call in (lambda: counter.encode("a"), lambda: counter.decode([1])):
        with pytest.raises(Invalid, match="pass an OpenAI model"):
            call()


def test_long_texts_are_encoded_in_chunks_that_change_nothing() -> None:
    counter = get_counter("cl100k")
    line = "Refunds are paid within 3 days.\n"
    tokens = counter.encode(line)
    assert counter.encode(line * 20_000) == list(itertools.chain(*[tokens] * 20_000))
    with pytest.raises(Invalid, match="without a seam"):
        counter.encode("a" * 600_000)


def test_a_counter_is_public() -> None:
    assert knowloom.get_counter("gpt-4o").name == "o200k_base"
    assert Path(knowloom.tokens.__file__).name == "tokens.py"
