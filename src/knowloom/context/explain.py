"""Explain omissions: why an item is not in a context, and what would include it.

Every remedy has been tried before it is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from knowloom.context.packing import SEE_ALSO, PackingResult, SectionCandidates
from knowloom.context.pipeline import gather_candidates
from knowloom.context.turns.continuation import SHOWN_REASON, pack_turn
from knowloom.formats.fencing import layout_of
from knowloom.model import Context, Form, Hit, Item, Key, LeftOut
from knowloom.ports import Stores, TokenCounter, Vector
from knowloom.recipes import Recipe, Source, search_depth
from knowloom.retrieval.reranking import Reranking
from knowloom.retrieval.sources import recipe_filter

# Larger budgets to try, as multiples of the requested one.
BUDGET_FACTORS = (1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)
MIN_BUDGET_STEP = 50  # tokens
SHOWN_REMEDY = "a request without it in seen or after"
LIMIT_FACTOR = 3  # growth of the limits, to report the next candidates
NOT_FOUND_REASONS: dict[Source, str] = {
    "search": "other items match the query better",
    "walk": "no edge leads to it from the hits",
    "neighbours": "no edge leads to it from the hits",
    "profile": "it is not the requested profile",
    "subjects": "it is about none of the hits",
}


def explain_context(
    context: Context,
    recipes: Sequence[Recipe],
    vector: Vector | None,
    stores: Stores,
    counter: TokenCounter,
    ids: Sequence[str],
    spaces: Sequence[str],
    with_budget: Callable[[int], Sequence[Recipe]],
    reranking: Reranking | None = None,
) -> Context:
    """Return the context with remedies, the next candidates, and a reason for every id.

    Ids that are in none of the queried spaces are looked up in all `spaces`. `with_budget` returns
    the recipes of the same request for a larger budget, which may have more candidates.
    """

    def gather(wider: Sequence[Recipe]) -> list[SectionCandidates]:
        return gather_candidates(context.query, wider, vector, stores, reranking)[0]

    sections = gather(recipes)

    def gather_for(budget: int) -> list[SectionCandidates]:
        wider = with_budget(budget)
        return sections if wider == recipes else gather(wider)

    with_remedies = tuple(_add_remedies(context, sections, gather_for, counter))
    explained = {entry.hit.item.key for entry in with_remedies}
    explained |= {hit.item.key for hit in context.hits}
    wide = [
        replace(
            recipe,
            limit=max(search_depth(recipe), len(section.hits)) * LIMIT_FACTOR,
            room=0,
            min_score=0.0,
        )
        for recipe, section in zip(recipes, sections, strict=True)
    ]
    next_ones = tuple(_next_candidates(gather(wide), recipes, explained))
    explained |= {entry.hit.item.key for entry in next_ones}
    by_id = tuple(_explain_ids(context, recipes, stores, ids, spaces, explained))
    return replace(context, left_out=(*with_remedies, *next_ones, *by_id))


def _add_remedies(
    context: Context,
    sections: Sequence[SectionCandidates],
    gather_for: Callable[[int], Sequence[SectionCandidates]],
    counter: TokenCounter,
) -> Iterator[LeftOut]:
    """Yield the omissions and the items shown by name only, with the budgets that show them.

    For an omission it is the smallest of the budgets tried that includes it, for a name the
    smallest that shows the item whole, or else more of it.
    """
    limit = _limit_name(context)
    budget = getattr(context.query, limit)
    has_pointers = any(fragment.name == SEE_ALSO for fragment in context.fragments)
    pointed: Sequence[LeftOut] = ()
    shown: dict[tuple[str, Key], dict[Form, int]] = {}
    if budget is not None and (context.left_out or has_pointers):
        pointed = _pack(context, sections, budget, counter).pointed if has_pointers else ()
        for factor in BUDGET_FACTORS:
            larger = max(int(budget * factor), budget + MIN_BUDGET_STEP)
            for fragment in _pack(context, gather_for(larger), larger, counter).fragments:
                for chosen in fragment.chosen:
                    forms = shown.setdefault((fragment.name, chosen.hit.item.key), {})
                    forms.setdefault(chosen.form, larger)
    for entry in context.left_out:
        forms = shown.get((entry.fragment, entry.hit.item.key), {})
        first = next(iter(forms), None)  # budgets were tried in ascending order
        remedy = _describe_budget(limit, forms, first)
        yield replace(entry, remedy=SHOWN_REMEDY if entry.reason == SHOWN_REASON else remedy)
    for entry in pointed:
        forms = shown.get((entry.fragment, entry.hit.item.key), {})
        best = min(forms, key=list(Form).index, default=None)
        reason = f"shown by its name only: {entry.reason}"
        yield replace(entry, reason=reason, remedy=_describe_budget(limit, forms, best))


def _limit_name(context: Context) -> str:
    """Return the option that limits the text: `new_tokens` where it is the smaller one."""
    new, limit = context.query.new_tokens, context.query.max_tokens
    return "new_tokens" if new is not None and (limit is None or new <= limit) else "max_tokens"


def _describe_budget(limit: str, forms: Mapping[Form, int], form: Form | None) -> str:
    if form is None:
        return f"more than {BUDGET_FACTORS[-1]:g} times the tokens"
    return f"{limit}={forms[form]} shows it ({form.value})"


def _pack(
    context: Context, sections: Sequence[SectionCandidates], budget: int, counter: TokenCounter
) -> PackingResult:
    query = context.query
    if _limit_name(context) == "new_tokens":
        query = replace(query, new_tokens=budget)
    else:
        query = replace(query, max_tokens=budget)
    hits = [hit for section in sections for hit in section.hits]
    layout = layout_of(query, context.digest, hits)
    return pack_turn(query, sections, counter, layout).packed


def _next_candidates(
    sections: Sequence[SectionCandidates], recipes: Sequence[Recipe], explained: set[Key]
) -> Iterator[LeftOut]:
    """Yield the candidates that the limit or the `min_score` of their recipe excluded."""
    explained = set(explained)
    for section, recipe in zip(sections, recipes, strict=True):
        for place, hit in enumerate(sorted(section.hits, key=_source_order), start=1):
            if hit.item.key not in explained:
                explained.add(hit.item.key)
                reason, remedy = _explain_rank(hit, place, recipe)
                yield LeftOut(hit, recipe.name, reason, remedy=remedy)


def _explain_rank(hit: Hit, place: int, recipe: Recipe) -> tuple[str, str]:
    """Return why a candidate at this place was excluded, and the remedy."""
    reasons, remedies = [], []
    if hit.score < recipe.min_score:
        reasons.append(f"scores {hit.score:g}, below min_score {recipe.min_score:g}")
        remedies.append(f"min_score={hit.score:g}")
    if place > recipe.limit or (recipe.room and not reasons):
        is_surplus = recipe.room and place <= recipe.limit
        bound = "those before it have text enough" if is_surplus else f"the limit is {recipe.limit}"
        reasons.append(f"number {place} of the candidates, {bound}")
        remedies.append(f"limit={place}")
    if not reasons:
        reasons.append("only links from items that were not found themselves lead to it")
        remedies.append("a larger limit of what is searched")
    where = "" if recipe.source == "search" else f" in the recipe {recipe.name!r}"
    return "; ".join(reasons), ", ".join(remedies) + where


def _source_order(hit: Hit) -> tuple[float, str, str]:
    """Order hits as their source did, where the limit applies: before a recipe's weights."""
    return (-hit.signals.get("match", hit.score), hit.item.id, hit.item.space)


def _explain_ids(
    context: Context,
    recipes: Sequence[Recipe],
    stores: Stores,
    ids: Sequence[str],
    spaces: Sequence[str],
    explained: set[Key],
) -> Iterator[LeftOut]:
    """Yield a reason for each id that is neither in the context nor among its candidates."""
    for id in ids:
        items = stores.items.get([(space, id) for space in spaces])
        queried = [item for item in items if item.space in context.query.spaces]
        if not queried:
            yield explain_other_space(id, items[0].space if items else "")
        for item in queried:
            if item.key not in explained:
                yield LeftOut(Hit(item, 0.0), "", _explain_absence(context, recipes, item))


def explain_other_space(id: str, space: str) -> LeftOut:
    """Report the space of an id, but not its content: that space was not queried."""
    hit = Hit(Item(id, space), 0.0)
    if not space:
        return LeftOut(hit, "", "no such item is stored", remedy="")
    reason = f"it is in space {space!r}, which was not requested"
    return LeftOut(hit, "", reason, remedy=f"spaces=[{space!r}]")


def _explain_absence(context: Context, recipes: Sequence[Recipe], item: Item) -> str:
    """Return, for each section, why the item is not a candidate."""
    reasons = {
        recipe.name: recipe_filter(context.query, recipe).rejection_reason(item)
        or NOT_FOUND_REASONS[recipe.source]
        for recipe in recipes
        if recipe.source != "links"
    }
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
