"""`knowloom.Assembler`: one text within the budget from the results of several strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from knowloom import tokens
from knowloom.capabilities.assembler import validation
from knowloom.capabilities.assembler.executor import StrategyExecutor, is_required
from knowloom.capabilities.assembler.model import (
    Assembly,
    AssemblyArguments,
    AssemblyRequest,
    Strategy,
    StrategyReport,
    StrategyResult,
)
from knowloom.capabilities.assembler.verbatim import assembly_layout, is_bare, is_verbatim
from knowloom.context.packing import PackingResult, SectionCandidates, pack
from knowloom.model import Form, Fragment, Hit, LeftOut, Problem
from knowloom.recipes import Recipe
from knowloom.text.duplicates import find_duplicates

MAX_REASONS = 10  # listed per strategy for duplicates, and for what did not fit

PackSections = Callable[[Sequence[SectionCandidates], int | None], PackingResult]


class Assembler:
    """Runs its strategies in parallel. May be shared by threads."""

    def __init__(self, strategies: Sequence[Strategy]) -> None:
        self._strategies = validation.validate_strategies(strategies)
        self._executor = StrategyExecutor()

    def assemble(
        self, request: AssemblyRequest | str, **options: Unpack[AssemblyArguments]
    ) -> Assembly:
        """Return the best of the strategies' results within `max_tokens`.

        Options are the fields of AssemblyRequest. The order depends on priorities and names, never
        on which strategy finished first: the same results give the same bytes.
        """
        request = validation.validate_request(validation.build_request(request, options))
        ordered = sorted(self._strategies, key=lambda strategy: (strategy.priority, strategy.name))
        enabled = [strategy for strategy in ordered if strategy.enabled]
        results = self._executor.run(enabled, request)
        hits, duplicates = _remove_duplicates(enabled, results)
        pack_sections = _packer(request, hits)
        sections = _allocate(enabled, hits, request.max_tokens, pack_sections)
        packed = pack_sections(sections, request.max_tokens)
        offered = {
            section.recipe.name: pack_sections([section], None).fragments[0].tokens
            for section in sections
        }
        reports = tuple(
            _report(strategy, results.get(strategy.name), packed, offered, duplicates)
            for strategy in ordered
        )
        problems = [result.problem for result in results.values() if result.problem]
        problems += dict.fromkeys(
            problem for result in results.values() for problem in result.failures
        )
        return Assembly(
            text=packed.text,
            tokens=packed.tokens,
            strategies=reports,
            fragments=packed.fragments,
            left_out=(*duplicates, *packed.left_out),
            degraded=(
                *problems,
                *_unmet_requirements(reports),
                *tokens.estimate_notices(request.model),
            ),
            token_counter=tokens.get_counter(request.model).name,
            optimality_gap=packed.gap,
            timings=_timings(results),
        )


def _timings(results: Mapping[str, StrategyResult]) -> dict[str, float]:
    """Return the milliseconds of each strategy that ran."""
    return {
        name: round(result.seconds * 1000, 3) for name, result in results.items() if result.seconds
    }


def _packer(request: AssemblyRequest, hits: Mapping[str, Sequence[Hit]]) -> PackSections:
    layout = assembly_layout(request.format, hits)
    counter = tokens.get_counter(request.model)
    query = request.text
    return lambda sections, budget: pack(sections, budget, layout, counter, query=query)


def _remove_duplicates(
    strategies: Sequence[Strategy], results: Mapping[str, StrategyResult]
) -> tuple[dict[str, list[Hit]], list[LeftOut]]:
    """Keep each text once: in a required strategy that has it, else in the first one.

    The user's own document may repeat itself.
    """
    order = sorted(strategies, key=lambda strategy: not is_required(strategy))
    candidates = [(strategy.name, hit) for strategy in order for hit in results[strategy.name].hits]
    duplicates = find_duplicates([_full_text(hit) for _, hit in candidates])
    hits: dict[str, list[Hit]] = {strategy.name: [] for strategy in strategies}
    left_out: list[LeftOut] = []
    for number, (name, hit) in enumerate(candidates):
        first = duplicates.get(number, number)
        other, original = candidates[first]
        if first != number and not (other == name and is_verbatim(hit)):
            reason = f"says the same as {original.item.id!r} of {other}"
            left_out.append(LeftOut(hit, name, reason))
        else:
            hits[name].append(hit)
    return hits, left_out


def _full_text(hit: Hit) -> str:
    item = hit.item
    return (
        f"{item.title} {item.text or item.summary} {' '.join(map(str, item.properties.values()))}"
    )


def _allocate(
    strategies: Sequence[Strategy],
    hits: Mapping[str, Sequence[Hit]],
    budget: int | None,
    pack_sections: PackSections,
) -> list[SectionCandidates]:
    """Return the candidates of each strategy with its share of the budget."""
    active = [strategy for strategy in strategies if hits[strategy.name]]
    shares = {s.name: validation.strategy_share(s, 1 / len(active)) for s in active}
    total = max(1.0, sum(shares.values()))
    sections = {
        name: _make_section(name, share / total, hits[name]) for name, share in shares.items()
    }
    if budget:
        required = [strategy.name for strategy in active if is_required(strategy)]
        _reserve_required(sections, required, budget, pack_sections)
        _shrink_optional(sections, required)
    return list(sections.values())


def _reserve_required(
    sections: dict[str, SectionCandidates],
    required: Sequence[str],
    budget: int,
    pack_sections: PackSections,
) -> None:
    """Raise the shares of required strategies so that the best they can show fits."""
    left = float(budget)
    for name in required:
        section = sections[name]
        share = section.recipe.share
        minimum = 0
        if left >= 1:
            minimum = _min_tokens(section, int(left), int(budget * share), pack_sections)
        share = min(1.0, max(share, (minimum + 1) / budget))
        sections[name] = _with_share(section, share)
        left -= budget * share


def _shrink_optional(sections: dict[str, SectionCandidates], required: Sequence[str]) -> None:
    """Scale the shares of optional strategies to what the required ones leave."""
    optional = [name for name in sections if name not in required]
    reserved = sum(sections[name].recipe.share for name in required)
    rest = sum(sections[name].recipe.share for name in optional)
    if reserved + rest > 1:
        factor = max(0.0, 1 - reserved) / rest if rest else 0.0
        for name in optional:
            section = sections[name]
            sections[name] = _with_share(section, section.recipe.share * factor)


def _with_share(section: SectionCandidates, share: float) -> SectionCandidates:
    return replace(section, recipe=replace(section.recipe, share=share))


def _make_section(name: str, share: float, hits: Sequence[Hit]) -> SectionCandidates:
    """Return a section; one with texts without a name to point at is shown in whole pieces.

    The user's own text may repeat itself.
    """
    forms = (Form.WHOLE,) if any(map(is_bare, hits)) else tuple(Form)
    recipe = Recipe(name, share=share, forms=forms)
    return SectionCandidates(recipe, tuple(hits), may_repeat=all(map(is_verbatim, hits)))


def _min_tokens(
    section: SectionCandidates, left: int, share: int, pack_sections: PackSections
) -> int:
    """Return 0 if something fits in the share, else the tokens of the best piece that fits."""
    if pack_sections([section], min(share, left)).tokens:
        return 0
    for hit in sorted(section.hits, key=lambda hit: (-hit.relevance, hit.item.id)):
        if size := pack_sections([replace(section, hits=(hit,))], left).tokens:
            return size
    return 0


def _report(
    strategy: Strategy,
    result: StrategyResult | None,
    packed: PackingResult,
    offered: Mapping[str, int],
    duplicates: Sequence[LeftOut],
) -> StrategyReport:
    name, required = strategy.name, is_required(strategy)
    if result is None:
        return StrategyReport(name, strategy.priority, required, "disabled")
    fragment = next(
        (fragment for fragment in packed.fragments if fragment.name == name), Fragment(name)
    )
    reasons = _reasons(name, result, fragment, packed, duplicates)
    return StrategyReport(
        name,
        strategy.priority,
        required,
        _status(result, bool(fragment.chosen), bool(reasons)),
        offered.get(name, 0),
        fragment.tokens,
        result.piece_count,
        len(fragment.chosen),
        tuple(reasons),
    )


def _reasons(
    name: str,
    result: StrategyResult,
    fragment: Fragment,
    packed: PackingResult,
    duplicates: Sequence[LeftOut],
) -> list[str]:
    """Return why the strategy failed, or why its pieces were cut."""
    reasons = [result.problem.reason] if result.problem else []
    reasons += result.notes
    hidden = 0
    for omissions in (duplicates, packed.left_out):
        omitted = [omission for omission in omissions if omission.fragment == name]
        shown = omitted[:MAX_REASONS]
        reasons += [f"{omission.hit.item.id}: {omission.reason}" for omission in shown]
        hidden += len(omitted) - len(shown)
    if hidden:
        reasons.append(f"{hidden} more were left out")
    shortened = sum(choice.form is not Form.WHOLE for choice in fragment.chosen)
    if shortened:
        reasons.append(f"{shortened} are shortened")
    return reasons


def _status(result: StrategyResult, is_used: bool, is_cut: bool) -> str:
    if result.problem is not None:
        return "timed_out" if result.problem.code == "timeout" else "failed"
    if not result.piece_count:
        return "empty"
    return ("cut" if is_cut else "used") if is_used else "left_out"


def _unmet_requirements(reports: Sequence[StrategyReport]) -> list[Problem]:
    return [
        Problem(
            report.name,
            f"required, but nothing of its {report.offered_tokens} tokens fits",
            "required_left_out",
        )
        for report in reports
        if report.required and report.status == "left_out"
    ]
