"""Evaluation: run each question through `search` and `context`, and measure the results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Any, TypedDict, Unpack

from knowloom.engine import Engine
from knowloom.errors import Invalid, NotFound, unknown_name
from knowloom.evaluation import metrics, questions
from knowloom.evaluation.questions import Question
from knowloom.evaluation.results import Evaluation, QuestionResult
from knowloom.filters.condition_json import WhereArgument, validate_where, where_to_json
from knowloom.model import Context, Form, Key
from knowloom.ports import Progress
from knowloom.recipes import Mode
from knowloom.retrieval_settings import SETTING_NAMES, RetrievalSettings, resolve_settings
from knowloom.validation import validate_int

KS, BUDGETS = (2, 5, 10), (512, 1024, 2048)
NDCG_K = 10
MAX_K = 1000
MAX_BUDGET = 100_000_000
MAX_REPORTED = 10  # ids that an error lists
READABLE = (Form.WHOLE, Form.EXCERPT)  # forms that show an item's own text
# Options of `search` and `context`; the others are of `context` only.
SEARCH_OPTIONS = ("mode", "min_score", "where")
QuestionSource = str | Path | Sequence[Question]


class EvaluationArguments(TypedDict, total=False):
    """The options of a configuration: of search, of contexts, and of RetrievalSettings."""

    mode: Mode
    min_score: float
    where: WhereArgument
    recipe: str
    agent: str
    format: str
    model: str
    bm25_weight: float
    vector_weight: float
    sharpness: float
    depth: int
    walk_starts: int
    walk_sharpness: float
    walk_named: float
    walk_onward: float
    walk_bridge: float


OPTIONS = tuple(EvaluationArguments.__annotations__)


def evaluate(
    kb: Engine,
    source: QuestionSource,
    *,
    ks: Sequence[int] = KS,
    budgets: Sequence[int] = BUDGETS,
    spaces: Sequence[str] = (),
    name: str = "",
    now: datetime | None = None,
    timer: Callable[[], float] = perf_counter,
    progress: Progress | None = None,
    **options: Unpack[EvaluationArguments],
) -> Evaluation:
    """Measure how well the knowledge answers questions: a JSONL file or Question values.

    `spaces` are for questions that name none; by default all spaces. Times exclude the embedding of
    the query, and the first question is run twice to warm up.
    """
    validate_engine(kb)
    for option in options:
        if option not in OPTIONS:
            raise unknown_name("option", option, OPTIONS)
    if options.get("where"):
        options["where"] = where_to_json(validate_where(options["where"]))  # JSON for reports
    ks, budgets = validate_ints("ks", ks, MAX_K), validate_ints("budgets", budgets, MAX_BUDGET)
    if not ks and not budgets:
        raise Invalid("ks and budgets must not both be empty")
    tasks = assign_spaces(kb, _load_questions(source), spaces)
    expected = resolve_expected(kb, tasks)
    arguments: dict[str, Any] = {n: v for n, v in options.items() if n not in SETTING_NAMES}
    tuned = kb.with_retrieval(resolve_retrieval(kb, options))
    runner = _Runner(tuned, ks, budgets, arguments, now or kb.reader.now(), timer)
    # Cached, so that no configuration pays for the embeddings of another.
    kb.reader.embed_texts([question.text for question in tasks], queries=True)
    runner.run(tasks[0], expected[0])
    answers = []
    for number, (question, keys) in enumerate(zip(tasks, expected, strict=True), 1):
        answers.append(runner.run(question, keys))
        if progress is not None:
            progress(name or "questions", number, len(tasks))
    return Evaluation(name or _default_name(options), dict(options), tuple(answers), ks, budgets)


@dataclass(frozen=True, slots=True)
class _Runner:
    """A configuration that questions are run through."""

    kb: Engine
    ks: Sequence[int]
    budgets: Sequence[int]
    options: dict[str, Any]
    now: datetime
    timer: Callable[[], float]

    def run(self, question: Question, expected: frozenset[Key]) -> QuestionResult:
        values: dict[str, float] = {}
        times: dict[str, float] = {}
        ranking: tuple[Key, ...] = ()
        if self.ks:
            ranking, times["search"] = self._search(question)
            values |= ranking_metrics(ranking, expected, self.ks)
        problems: dict[str, None] = {}
        tokens: dict[int, int] = {}
        for budget in self.budgets:
            context, times[f"context@{budget}"] = self._context(question, budget)
            shares = context_metrics(context, question, expected)
            values |= {f"{family}@{budget}": share for family, share in shares.items()}
            tokens[budget] = context.tokens
            problems |= dict.fromkeys(f"{p.part}: {p.reason}" for p in context.degraded)
        return QuestionResult(question, expected, ranking, values, times, tokens, tuple(problems))

    def _search(self, question: Question) -> tuple[tuple[Key, ...], float]:
        options = {name: self.options[name] for name in SEARCH_OPTIONS if name in self.options}
        limit = max(*self.ks, NDCG_K)
        started = self.timer()
        hits = self.kb.search(
            question.text, spaces=question.spaces, limit=limit, now=self.now, **options
        )
        elapsed = 1000 * (self.timer() - started)
        return tuple(hit.item.key for hit in hits), elapsed

    def _context(self, question: Question, budget: int) -> tuple[Context, float]:
        started = self.timer()
        context = self.kb.context(
            question.text,
            spaces=question.spaces,
            max_tokens=budget,
            now=self.now,
            **self.options,
        )
        return context, 1000 * (self.timer() - started)


def ranking_metrics(
    ranking: Sequence[Key], expected: frozenset[Key], ks: Sequence[int]
) -> dict[str, float]:
    """Return all measures of one ranking."""
    values = {f"recall@{k}": metrics.recall(ranking, expected, k) for k in ks}
    values |= {f"all-found@{k}": metrics.complete_recall(ranking, expected, k) for k in ks}
    return values | {f"nDCG@{NDCG_K}": metrics.ndcg(ranking, expected, NDCG_K)}


def context_metrics(
    context: Context, question: Question, expected: frozenset[Key]
) -> dict[str, float]:
    """Return all measures of one context.

    The evidence are the facts; of a question without facts, the expected items: an excerpt shows
    an item as well as the whole does, as its best passages are chosen for the question.
    """
    limit = max(1, len(context.hits))
    if question.facts:
        evidence = metrics.fact_recall(context.text, question.facts)
    else:
        evidence = metrics.recall(shown_items(context, READABLE), expected, limit)
    whole = metrics.recall(shown_items(context, (Form.WHOLE,)), expected, limit)
    values = {"evidence": evidence, "whole": whole}
    if question.statements:
        values["facts"] = metrics.fact_recall(context.text, question.statements)
    return values


def shown_items(context: Context, forms: Collection[Form]) -> list[Key]:
    """Return the items that a context shows in one of the forms."""
    chosen = [choice for fragment in context.fragments for choice in fragment.chosen]
    return [choice.hit.item.key for choice in chosen if choice.form in forms]


def resolve_expected(kb: Engine, tasks: Sequence[Question]) -> list[frozenset[Key]]:
    """Return the expected items of each question by key; raise NotFound listing missing ids."""
    stored = _stored_keys(kb, tasks)
    resolved, missing = [], []
    for question in tasks:
        keys = []
        for id in question.expected:
            candidates = [(space, id) for space in question.spaces] if isinstance(id, str) else [id]
            matches = [key for key in candidates if key in stored and key[0] in question.spaces]
            if len(matches) > 1:
                spaces, example = ", ".join(key[0] for key in matches), matches[0][0]
                raise Invalid(
                    f"question {question.id}: {id!r} is ambiguous, it exists in {spaces}; "
                    f'use {{"space": "{example}", "id": "{id}"}}'
                )
            if not matches:
                missing.append(f"{id!r} (question {question.id}, in {', '.join(question.spaces)})")
            keys += matches
        resolved.append(frozenset(keys))
    if missing:
        rest = len(missing) - MAX_REPORTED
        more = f"; and {rest:,} more" if rest > 0 else ""
        ids = "; ".join(missing[:MAX_REPORTED])
        raise NotFound(f"expected items not found: {ids}{more}", "unknown_ids")
    return resolved


def _stored_keys(kb: Engine, tasks: Sequence[Question]) -> set[Key]:
    ids: dict[str, set[str]] = {}
    for question in tasks:
        names = [id if isinstance(id, str) else id[1] for id in question.expected]
        for space in question.spaces:
            ids.setdefault(space, set()).update(names)
    return {
        (space, item.id)
        for space in sorted(ids)
        for item in kb.get(sorted(ids[space]), space=space)
    }


def resolve_retrieval(kb: Engine, options: Mapping[str, Any]) -> RetrievalSettings:
    """Return the engine's retrieval settings, overridden by those of the options."""
    overrides = {name: options[name] for name in SETTING_NAMES if name in options}
    return resolve_settings(kb.retrieval.changes | overrides)


def validate_engine(kb: object) -> None:
    """Refuse a client: the retrieval settings of a server cannot be changed per request."""
    if not isinstance(kb, Engine):
        raise Invalid(f"kb must be an engine from knowloom.open, got {type(kb).__name__}")


def validate_ints(name: str, values: Sequence[int], maximum: int) -> tuple[int, ...]:
    """Return the distinct values in order."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise Invalid(f"{name} must be a list of integers, got {values!r}")
    return tuple(sorted({validate_int(name, value, 1, maximum) for value in values}))


def assign_spaces(
    kb: Engine, tasks: Sequence[Question], spaces: Sequence[str]
) -> tuple[Question, ...]:
    """Return the questions with `spaces`, or all spaces, where they name none."""
    if spaces:
        default = tuple(kb.reader.resolve_spaces(spaces))
    else:
        default = tuple(info.name for info in kb.maintenance.stats().spaces)
    if not default:
        raise NotFound("the knowledge base is empty", "no_items")
    return tuple(
        question if question.spaces else replace(question, spaces=default) for question in tasks
    )


def _load_questions(source: QuestionSource) -> tuple[Question, ...]:
    if isinstance(source, str | Path):
        return questions.read_questions(source)
    values = tuple(source)
    if not values or not all(isinstance(value, Question) for value in values):
        raise Invalid("questions must be a JSONL file or one or more Question values")
    tasks = tuple(
        questions.validate_question(replace(question, id=str(question.id or number)))
        for number, question in enumerate(values, 1)
    )
    ids: set[str] = set()
    for question in tasks:
        if question.id in ids:
            raise Invalid(f"duplicate question id {question.id!r}")
        ids.add(question.id)
    return tasks


def _default_name(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "default"
