"""Why something is not in a context, and what would bring it in. Every remedy was tried before it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from knowloom.context.packing import SectionCandidates, pack, tolerance_of
from knowloom.context.pipeline import gather_candidates
from knowloom.formats.layout import get_layout
from knowloom.model import Context, Hit, Item, Key, LeftOut
from knowloom.ports import Stores, TokenCounter, Vector
from knowloom.recipes import Recipe, Source, search_depth
from knowloom.retrieval.sources import recipe_filter

BUDGET_FACTORS = (
    1.05,
    1.1,
    1.2,
    1.35,
    1.5,
    1.75,
    2.0,
    2.5,
    3.0,
    4.0,
    6.0,
    8.0,
)  # budgets tried, as multiples of the one asked for
NOT_FOUND_REASONS: dict[Source, str] = {
    "search": "other items match the words and the meaning better",
    "walk": "no link leads to it from what was found",
    "neighbours": "no link leads to it from what was found",
    "profile": "it is not the profile that was asked for",
    "subjects": "it is not about anything that was found",
}
LIMIT_FACTOR = 3  # times as many candidates are looked at, to name those that came next


def explain_context(
    context: Context,
    recipes: Sequence[Recipe],
    vector: Vector | None,
    stores: Stores,
    counter: TokenCounter,
    ids: Sequence[str],
    spaces: Sequence[str],
    with_budget: Callable[[int], Sequence[Recipe]],
) -> Context:
    """The context with remedies, with the candidates that came just too late, and with a reason for every id asked about: where else it
    is, too, if that is one of the `spaces`.
    `with_budget` gives the recipes of the same request with more tokens, which may take more candidates."""

    usual, _, _ = gather_candidates(context.query, recipes, vector, stores)

    def parts(budget: int) -> list[SectionCandidates]:
        wider = with_budget(budget)
        return (
            usual
            if wider == recipes
            else gather_candidates(context.query, wider, vector, stores)[0]
        )

    fitted = tuple(_add_remedies(context, parts, counter))
    known = {(one.hit.item.key) for one in fitted} | {hit.item.key for hit in context.hits}
    wide = [
        replace(
            recipe,
            limit=max(search_depth(recipe), len(part.hits)) * LIMIT_FACTOR,
            room=0,
            min_score=0.0,
        )
        for recipe, part in zip(recipes, usual, strict=True)
    ]
    beyond = tuple(
        _next_candidates(gather_candidates(context.query, wide, vector, stores)[0], recipes, known)
    )
    known |= {one.hit.item.key for one in beyond}
    asked = tuple(_explain_ids(context, recipes, stores, ids, spaces, known))
    return replace(context, left_out=(*fitted, *beyond, *asked))


def _add_remedies(
    context: Context, parts: Callable[[int], Sequence[SectionCandidates]], counter: TokenCounter
) -> Iterator[LeftOut]:
    """The smallest larger budget, of those tried, that has room for each candidate left out."""
    found: dict[tuple[str, Key], str] = {}
    budget = context.query.max_tokens
    if budget is not None and context.left_out:
        for factor in BUDGET_FACTORS:
            larger = max(int(budget * factor), budget + 50)
            wider = parts(larger)
            for fragment in pack(
                wider, larger, get_layout(context.query.format), counter, tolerance_of(wider)
            ).fragments:
                for chosen in fragment.chosen:
                    found.setdefault(
                        (fragment.name, chosen.hit.item.key),
                        f"max_tokens={larger} shows it ({chosen.form.value})",
                    )
    for one in context.left_out:
        yield replace(
            one,
            remedy=found.get(
                (one.fragment, one.hit.item.key),
                f"more than {BUDGET_FACTORS[-1]:g} times the tokens",
            ),
        )


def _next_candidates(
    parts: Sequence[SectionCandidates], recipes: Sequence[Recipe], known: set[Key]
) -> Iterator[LeftOut]:
    """Candidates that the limit or the least score of their recipe kept out."""
    for part, recipe in zip(parts, recipes, strict=True):
        for place, hit in enumerate(sorted(part.hits, key=_source_order), start=1):
            if hit.item.key in known:
                continue
            known = known | {hit.item.key}
            reasons, remedies = [], []
            if hit.score < recipe.min_score:
                reasons.append(f"scores {hit.score:g}, below min_score {recipe.min_score:g}")
                remedies.append(f"min_score={hit.score:g}")
            if place > recipe.limit or (recipe.room and not reasons):
                enough = (
                    "those before it have text enough"
                    if recipe.room and place <= recipe.limit
                    else f"the limit is {recipe.limit}"
                )
                reasons.append(f"number {place} of the candidates, {enough}")
                remedies.append(f"limit={place}")
            if not reasons:
                reasons.append("only links from items that were not found themselves lead to it")
                remedies.append("a larger limit of what is searched")
            where = "" if recipe.source == "search" else f" in the recipe {recipe.name!r}"
            yield LeftOut(hit, recipe.name, "; ".join(reasons), remedy=", ".join(remedies) + where)


def _source_order(hit: Hit) -> tuple[float, str, str]:
    """As the source found them, where the limit cuts: before a recipe's weights gave them another order."""
    return (-hit.signals.get("match", hit.score), hit.item.id, hit.item.space)


def _explain_ids(
    context: Context,
    recipes: Sequence[Recipe],
    stores: Stores,
    ids: Sequence[str],
    spaces: Sequence[str],
    known: set[Key],
) -> Iterator[LeftOut]:
    """A reason for each id asked about that is neither in the context nor among its candidates."""
    for id in ids:
        items = stores.items.get([(space, id) for space in spaces])
        here = [item for item in items if item.space in context.query.spaces]
        if not here:
            where = (
                f"it is in space {items[0].space!r}, which was not asked for"
                if items
                else "no such item is stored"
            )
            # Where it is may be told, what it says may not: that space was not asked for.
            yield LeftOut(
                Hit(Item(id, items[0].space if items else ""), 0.0),
                "",
                where,
                remedy=f"spaces=[{items[0].space!r}]" if items else "",
            )
        for item in here:
            if item.key not in known:
                yield LeftOut(Hit(item, 0.0), "", _reasons(context, recipes, item))


def _reasons(context: Context, recipes: Sequence[Recipe], item: Item) -> str:
    """For each part of the context why the item is no candidate of it."""
    reasons = {
        recipe.name: recipe_filter(context.query, recipe).refuses(item)
        or NOT_FOUND_REASONS[recipe.source]
        for recipe in recipes
        if recipe.source != "links"
    }
    return "; ".join(f"{name}: {why}" for name, why in reasons.items())
