"""Ask every question and measure what comes: the ranking of `search`, and what `context` shows inside token budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from knowloom.embedding import Progress
from knowloom.engine import Engine
from knowloom.errors import Invalid, NotFound, unknown
from knowloom.evaluation import metrics, questions
from knowloom.evaluation.questions import Question
from knowloom.evaluation.results import Answered, Evaluation
from knowloom.model import Context, Form, Key
from knowloom.options import NAMES, RetrievalSettings, known, whole

KS, BUDGETS = (2, 5, 10), (512, 1024, 2048)
NDCG = 10
MOST = 1000  # that k may be
NAMED = 10  # ids that an error names
OF_BOTH, OF_CONTEXT = ("mode", "min_score"), ("recipe", "agent", "format", "model")
OPTIONS = (*OF_BOTH, *OF_CONTEXT, *NAMES)
Given = str | Path | Sequence[Question]


def evaluate(
    kb: Engine,
    asked: Given,
    *,
    ks: Sequence[int] = KS,
    budgets: Sequence[int] = BUDGETS,
    spaces: Sequence[str] = (),
    name: str = "",
    now: datetime | None = None,
    timer: Callable[[], float] = perf_counter,
    progress: Progress | None = None,
    **options: Any,
) -> Evaluation:
    """How well the knowledge answers questions (a JSONL file, or Question values), as `search` and `context` do by default, or with options:
    mode and min_score of both, recipe, agent, format and model of `context`, and the numbers of RetrievalSettings. `spaces` are for
    questions that name none; by default all. Times leave out the embedding of the question, and the first question is asked twice."""
    check_engine(kb)
    for option in options:
        if option not in OPTIONS:
            raise unknown("option", option, OPTIONS)
    ks, budgets = numbers("k", ks, MOST), numbers("a token budget", budgets, 100_000_000)
    if not ks and not budgets:
        raise Invalid("without a k and without a budget there is nothing to measure")
    given = placed(
        kb, questions.read(asked) if isinstance(asked, str | Path) else _values(asked), spaces
    )
    needed = expected_keys(kb, given)
    at = now or kb.now()
    ask = _Asking(
        kb.with_retrieval(in_force(kb, options)),
        ks,
        budgets,
        {option: value for option, value in options.items() if option not in NAMES},
        at,
        timer,
    )
    kb.embed_texts(
        [question.text for question in given]
    )  # kept in the cache, so that no configuration pays for another
    ask.answered(given[0], needed[0])
    answers = []
    for place, (question, keys) in enumerate(zip(given, needed, strict=True), 1):
        answers.append(ask.answered(question, keys))
        if progress is not None:
            progress(name or "questions", place, len(given))
    return Evaluation(name or _named(options), dict(options), tuple(answers), ks, budgets)


class _Asking:
    """One configuration, ready to be asked."""

    def __init__(
        self,
        kb: Engine,
        ks: Sequence[int],
        budgets: Sequence[int],
        options: Mapping[str, Any],
        now: datetime,
        timer: Callable[[], float],
    ) -> None:
        self._kb, self._ks, self._budgets, self._now, self._timer = kb, ks, budgets, now, timer
        self._search = {name: value for name, value in options.items() if name in OF_BOTH}
        self._context = dict(options)

    def answered(self, question: Question, keys: frozenset[Key]) -> Answered:
        spaces = question.spaces
        values: dict[str, float] = {}
        times: dict[str, float] = {}
        found: tuple[Key, ...] = ()
        if self._ks:
            started = self._timer()
            hits = self._kb.search(
                question.text,
                spaces=spaces,
                limit=max(*self._ks, NDCG),
                now=self._now,
                **self._search,
            )
            times["search"] = 1000 * (self._timer() - started)
            found = tuple(hit.item.key for hit in hits)
            values |= ranked(found, keys, self._ks)
        problems: dict[str, None] = {}
        tokens: dict[int, int] = {}
        for budget in self._budgets:
            started = self._timer()
            context = self._kb.context(
                question.text, spaces=spaces, max_tokens=budget, now=self._now, **self._context
            )
            times[f"context@{budget}"] = 1000 * (self._timer() - started)
            values |= {
                f"evidence@{budget}": metrics.recall(
                    shown(context), keys, max(1, len(context.hits))
                )
            }
            if question.facts:
                values |= {f"facts@{budget}": metrics.facts_said(context.text, question.facts)}
            tokens[budget] = context.tokens
            problems |= dict.fromkeys(f"{one.part}: {one.reason}" for one in context.degraded)
        return Answered(question, keys, found, values, times, tokens, tuple(problems))


def ranked(found: Sequence[Key], expected: frozenset[Key], ks: Sequence[int]) -> dict[str, float]:
    """Every measure of one ranking."""
    values = {f"recall@{k}": metrics.recall(found, expected, k) for k in ks}
    values |= {f"all-found@{k}": metrics.all_found(found, expected, k) for k in ks}
    return values | {f"nDCG@{NDCG}": metrics.ndcg(found, expected, NDCG)}


def shown(context: Context) -> list[Key]:
    """The items that a context shows whole."""
    return [
        one.hit.item.key
        for part in context.fragments
        for one in part.chosen
        if one.form is Form.WHOLE
    ]


def expected_keys(kb: Engine, asked: Sequence[Question]) -> list[frozenset[Key]]:
    """What each question expects, by (space, id). Ids that are not there are named, all at once."""
    wanted: dict[str, set[str]] = {}
    for question in asked:
        for space in question.spaces:
            wanted.setdefault(space, set()).update(
                one if isinstance(one, str) else one[1] for one in question.expected
            )
    there = {
        (space, item.id)
        for space in sorted(wanted)
        for item in kb.get(sorted(wanted[space]), space=space)
    }
    needed, missing = [], []
    for question in asked:
        keys = []
        for one in question.expected:
            possible = (
                [(space, one) for space in question.spaces] if isinstance(one, str) else [one]
            )
            found = [key for key in possible if key in there and key[0] in question.spaces]
            if len(found) > 1:
                known_in = ", ".join(key[0] for key in found)
                raise Invalid(
                    f'question {question.id}: {one!r} is in several of its spaces ({known_in}): say {{"space": "{found[0][0]}", "id": "{one}"}}'
                )
            keys += found
            missing += (
                []
                if found
                else [f"{one!r} (question {question.id}, in {', '.join(question.spaces)})"]
            )
        needed.append(frozenset(keys))
    if missing:
        more = f"; and {len(missing) - NAMED:,} more" if len(missing) > NAMED else ""
        raise NotFound(
            f"expected, but not in the knowledge: {'; '.join(missing[:NAMED])}{more}", "unknown_ids"
        )
    return needed


def in_force(kb: Engine, options: Mapping[str, Any]) -> RetrievalSettings:
    """The numbers that are set, with those of the options in their places."""
    return known(
        {**kb.retrieval.given, **{option: options[option] for option in NAMES if option in options}}
    )


def check_engine(kb: object) -> None:
    """A client cannot be asked with other numbers: those are the server's."""
    if not isinstance(kb, Engine):
        raise Invalid(
            f"only an engine that knowloom.open gave can be measured, not {type(kb).__name__}"
        )


def numbers(what: str, given: Sequence[int], most: int) -> tuple[int, ...]:
    """Each once, in order."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise Invalid(f"{what} is one or more whole numbers, not {given!r}")
    return tuple(sorted({whole(what, one, 1, most) for one in given}))


def placed(kb: Engine, asked: Sequence[Question], spaces: Sequence[str]) -> tuple[Question, ...]:
    """The questions, each with the spaces it is asked in."""
    everywhere = (
        tuple(kb.known(spaces)) if spaces else tuple(info.name for info in kb.stats().spaces)
    )
    if not everywhere:
        raise NotFound("the knowledge is empty: there is nothing to be found", "no_items")
    return tuple(
        question if question.spaces else replace(question, spaces=everywhere) for question in asked
    )


def _values(asked: Sequence[Question]) -> tuple[Question, ...]:
    given = tuple(asked)
    if not given or not all(isinstance(one, Question) for one in given):
        raise Invalid("questions are a JSONL file, or one or more Question values")
    named = tuple(
        questions.checked(replace(question, id=str(question.id or place)))
        for place, question in enumerate(given, 1)
    )
    if len({question.id for question in named}) < len(named):
        raise Invalid("two questions have the same id")
    return named


def _named(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "as it is"
