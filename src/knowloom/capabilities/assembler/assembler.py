"""`knowloom.Assembler`: strategies in, one text within the budget out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from knowloom import tokens
from knowloom.capabilities.assembler import validation
from knowloom.capabilities.assembler.deduplication import find_duplicates
from knowloom.capabilities.assembler.executor import StrategyExecutor, is_required
from knowloom.capabilities.assembler.model import (
    TEXT,
    Assembly,
    AssemblyRequest,
    Strategy,
    StrategyReport,
    StrategyResult,
)
from knowloom.context.packing import Fitted, Part, fit
from knowloom.errors import Invalid
from knowloom.formats.layout import Layout, layout
from knowloom.formats.markdown_escape import body_text
from knowloom.model import Form, Fragment, Hit, LeftOut, Problem
from knowloom.recipes import Recipe

FitParts = Callable[[Sequence[Part], int | None], Fitted]


class Assembler:
    """Asks its strategies side by side. May be used by several threads."""

    def __init__(self, strategies: Sequence[Strategy]) -> None:
        self._strategies = validation.validate_strategies(strategies)
        self._runner = StrategyExecutor()

    def assemble(self, request: AssemblyRequest | str, **options: Any) -> Assembly:
        """The best of what the strategies give, within `max_tokens`. Options are the fields of AssemblyRequest. Same answers of the
        strategies, same bytes: what stands where depends on priorities and names, never on who was first."""
        if not isinstance(request, AssemblyRequest):
            request = validation.build_request(request, options)
        elif options:
            raise Invalid(
                f"options go with a text, not with an AssemblyRequest: {', '.join(sorted(options))}"
            )
        request = validation.validate_request(request)
        ordered = sorted(self._strategies, key=lambda one: (one.priority, one.name))
        working = [one for one in ordered if one.enabled]
        answers = self._runner.run(working, request)
        hits, same = _without_repeats(
            working, {one.name: answers[one.name].hits for one in working}
        )
        fitting = _fitting(request)
        parts = _shared_out(working, hits, request.max_tokens, fitting)
        fitted = fitting(parts, request.max_tokens)
        wanted = {part.recipe.name: fitting([part], None).fragments[0].tokens for part in parts}
        reports = tuple(
            _report(one, answers.get(one.name), fitted, wanted, same) for one in ordered
        )
        return Assembly(
            text=fitted.text,
            tokens=fitted.tokens,
            strategies=reports,
            fragments=fitted.fragments,
            left_out=(*same, *fitted.left_out),
            degraded=(
                *(problem for one in working if (problem := answers[one.name].problem)),
                *_unmet(reports),
            ),
            token_counter=tokens.counter(request.model).name,
            optimality_gap=fitted.gap,
            timings={
                one.name: round(answers[one.name].seconds * 1000, 3)
                for one in working
                if answers[one.name].seconds
            },
        )


def _fitting(request: AssemblyRequest) -> FitParts:
    layout, counter = assembly_layout(request.format), tokens.counter(request.model)
    return lambda parts, budget: fit(parts, budget, layout, counter)


def _without_repeats(
    working: Sequence[Strategy], hits: dict[str, tuple[Hit, ...]]
) -> tuple[dict[str, list[Hit]], list[LeftOut]]:
    """Each text once: where required strategies have it, else where it stands first."""
    order = sorted(working, key=lambda one: not is_required(one))
    every = [(one.name, hit) for one in order for hit in hits[one.name]]
    again = find_duplicates(
        [
            f"{hit.item.title} {hit.item.text or hit.item.summary} {' '.join(map(str, hit.item.properties.values()))}"
            for _, hit in every
        ]
    )
    kept: dict[str, list[Hit]] = {one.name: [] for one in working}
    left_out: list[LeftOut] = []
    for number, (name, hit) in enumerate(every):
        if number in again:
            other, twin = every[again[number]]
            left_out.append(LeftOut(hit, name, f"says the same as {twin.item.id!r} of {other}"))
        else:
            kept[name].append(hit)
    return kept, left_out


def _shared_out(
    working: Sequence[Strategy], hits: dict[str, list[Hit]], budget: int | None, fitting: FitParts
) -> list[Part]:
    """The candidates of each strategy with its share. What is required gets room for the best it can show before all others."""
    giving = [one for one in working if hits[one.name]]
    shares = {one.name: validation.strategy_share(one, 1 / len(giving)) for one in giving}
    total = max(1.0, sum(shares.values()))
    parts = {one.name: _part(one.name, shares[one.name] / total, hits[one.name]) for one in giving}
    if budget:
        left = float(budget)
        for one in giving:
            if is_required(one):
                part = parts[one.name]
                least = (
                    _least(part, int(left), int(budget * part.recipe.share), fitting)
                    if left >= 1
                    else 0
                )
                parts[one.name] = replace(
                    part,
                    recipe=replace(
                        part.recipe, share=min(1.0, max(part.recipe.share, (least + 1) / budget))
                    ),
                )
                left -= budget * parts[one.name].recipe.share
        sure = sum(parts[one.name].recipe.share for one in giving if is_required(one))
        rest = sum(parts[one.name].recipe.share for one in giving if not is_required(one))
        if sure + rest > 1:  # the others move together
            smaller = max(0.0, 1 - sure) / rest if rest else 0.0
            for one in giving:
                if not is_required(one):
                    parts[one.name] = replace(
                        parts[one.name],
                        recipe=replace(
                            parts[one.name].recipe, share=parts[one.name].recipe.share * smaller
                        ),
                    )
    return [parts[one.name] for one in giving]


def _part(name: str, share: float, hits: Sequence[Hit]) -> Part:
    """A bare text has no name to point at: it is shown whole or not at all."""
    bare = any(hit.item.type == TEXT and not hit.item.title for hit in hits)
    return Part(
        Recipe(name, share=share, forms=(Form.WHOLE,) if bare else tuple(Form)), tuple(hits)
    )


def _least(part: Part, left: int, own: int, fitting: FitParts) -> int:
    """Tokens for the best of a required part: within its share if anything fits there, else its best piece in what is left."""
    if fitting([part], min(own, left)).tokens:
        return 0
    best = sorted(part.hits, key=lambda hit: (-hit.relevance, hit.item.id))
    for hit in best:
        if found := fitting([replace(part, hits=(hit,))], left).tokens:
            return found
    return 0


def _report(
    one: Strategy,
    answer: StrategyResult | None,
    fitted: Fitted,
    wanted: dict[str, int],
    same: Sequence[LeftOut],
) -> StrategyReport:
    if answer is None:
        return StrategyReport(one.name, one.priority, is_required(one), "disabled")
    fragment = next(
        (fragment for fragment in fitted.fragments if fragment.name == one.name), Fragment(one.name)
    )
    twins = [left for left in same if left.fragment == one.name]
    cut = [left for left in fitted.left_out if left.fragment == one.name]
    shorter = sum(chosen.form.value != "whole" for chosen in fragment.chosen)
    reasons = [answer.problem.reason] if answer.problem else []
    reasons += [
        *answer.notes,
        *(f"{left.hit.item.id}: {left.reason}" for left in (*twins[:10], *cut[:10])),
    ]
    reasons += [
        f"{count} more were left out"
        for count in [max(0, len(twins) - 10) + max(0, len(cut) - 10)]
        if count
    ]
    reasons += [f"{shorter} are shown shorter than they are"] if shorter else []
    status = _status(answer, bool(fragment.chosen), bool(reasons))
    return StrategyReport(
        one.name,
        one.priority,
        is_required(one),
        status,
        wanted.get(one.name, 0),
        fragment.tokens,
        answer.given,
        len(fragment.chosen),
        tuple(reasons),
    )


def _status(answer: StrategyResult, used: bool, cut: bool) -> str:
    if answer.problem is not None:
        return "timed_out" if answer.problem.code == "timeout" else "failed"
    if not answer.given:
        return "empty"
    return ("cut" if cut else "used") if used else "left_out"


def _unmet(reports: Sequence[StrategyReport]) -> list[Problem]:
    return [
        Problem(
            one.name,
            f"it is required, and nothing of its {one.asked} tokens fits",
            "required_left_out",
        )
        for one in reports
        if one.required and one.status == "left_out"
    ]


def assembly_layout(name: str) -> Layout:
    usual = layout(name)
    if name != "markdown":
        return usual

    def block(hit: Hit, form: Form) -> str:
        bare = hit.item.type == TEXT and not hit.item.title and form is Form.WHOLE
        return f"{body_text(hit.item.text.strip())}\n\n" if bare else usual.block(hit, form)

    return replace(usual, name="assembled markdown", block=block)
