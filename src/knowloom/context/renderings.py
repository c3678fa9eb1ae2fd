"""Renderings: every form of a candidate, with its tokens and its value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowloom.caching import TwoGenerationCache
from knowloom.construction import fast_constructor
from knowloom.context.excerpts import Part, grow_excerpts, merge_ranges
from knowloom.formats.fields import available_forms
from knowloom.formats.layout import Layout
from knowloom.model import Form, Hit, Passage
from knowloom.ports import TokenCounter
from knowloom.recipes import Recipe

FORM_WEIGHTS = {Form.WHOLE: 1.0, Form.SUMMARY: 0.35, Form.POINTER: 0.05}
CACHED_RENDERINGS = 16_384  # items, about 1 KB each
MAX_CACHED_CHARACTERS = 5_000  # of one item
CACHED_PARTS = 65_536  # token counts of parts
ELLIPSIS_TOKENS = 4  # between two ranges of an excerpt
# A long item is offered whole if this share of it is worth considering.
MIN_WHOLE_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Rendering:
    """One candidate in one form, with its tokens in the document.

    The text of an excerpt is rendered if it is chosen; until then its tokens are an estimate.
    """

    form: Form
    text: str
    tokens: int
    parts: tuple[Part, ...] = ()  # of an excerpt

    def worth(self, value: float, parts: Sequence[Part], scale: float) -> float:
        """Return the value of this form: of the item, or of the parts of a long one it shows."""
        if self.form is Form.EXCERPT:
            return scale * sum(part.value for part in self.parts)
        if self.form is Form.WHOLE and parts:
            return max(value, scale * sum(part.value for part in parts) + 1)
        return value * FORM_WEIGHTS[self.form]


_cache: TwoGenerationCache[tuple[object, ...], tuple[Rendering, ...]] = TwoGenerationCache(
    "renderings", CACHED_RENDERINGS
)
_part_tokens: TwoGenerationCache[tuple[object, ...], tuple[int, int]] = TwoGenerationCache(
    "part tokens", CACHED_PARTS
)
_new_rendering = fast_constructor(Rendering)


def render_forms(
    hit: Hit, recipe: Recipe, layout: Layout, counter: TokenCounter
) -> tuple[Rendering, ...]:
    """Return the renderings of a candidate, fullest first, cached by everything they show.

    The same items recur in request after request.
    """
    separator, item = layout.separators.get(recipe.name, layout.separator), hit.item
    properties = repr(item.properties) if item.properties else ""
    length = len(item.title) + len(item.text) + len(item.summary) + len(properties)
    if not layout.is_cacheable or length > MAX_CACHED_CHARACTERS:
        return _render(hit, _offered_forms(hit, recipe), layout, separator, counter)
    key = (
        layout.name,
        separator,
        counter,
        recipe.forms,
        item.id,
        item.kind,
        item.type,
        item.title,
        item.text,
        item.summary,
        item.tags,
        properties,
        hit.via,
    )
    renderings = _cache.get(key)
    if renderings is None:
        renderings = _render(hit, _offered_forms(hit, recipe), layout, separator, counter)
        _cache.put(key, renderings)
    return renderings


def _offered_forms(hit: Hit, recipe: Recipe) -> list[Form]:
    forms = available_forms(hit.item)
    return [form for form in forms if form is Form.WHOLE or form in recipe.forms]


def _render(
    hit: Hit, forms: Sequence[Form], layout: Layout, separator: str, counter: TokenCounter
) -> tuple[Rendering, ...]:
    """Render each form, and drop forms that save no tokens."""
    renderings: list[Rendering] = []
    for form in forms:
        text = layout.block(hit, form)
        tokens = counter.count(text + separator)
        if not renderings or tokens < renderings[-1].tokens:
            renderings.append(_new_rendering(form, text, tokens, ()))
    return tuple(renderings)


def render_long(
    hit: Hit,
    parts: Sequence[Part],
    recipe: Recipe,
    layout: Layout,
    counter: TokenCounter,
    max_characters: int,
) -> tuple[Rendering, ...]:
    """Return the renderings of a long item.

    It is rendered whole up to `max_characters`, or if much of it is worth considering.
    """
    separator, item = layout.separators.get(recipe.name, layout.separator), hit.item
    excerpts = _render_excerpts(hit, parts, layout, separator, counter)
    shown = sum(part.range.end - part.range.start for part in parts)
    if len(item.text) <= max_characters or shown >= MIN_WHOLE_SHARE * len(item.text):
        whole, *shorter = render_forms(hit, recipe, layout, counter)
        return (whole, *excerpts, *shorter)
    forms = [form for form in _offered_forms(hit, recipe) if form is not Form.WHOLE]
    return (*excerpts, *_render(hit, forms, layout, separator, counter))


def _render_excerpts(
    hit: Hit, parts: Sequence[Part], layout: Layout, separator: str, counter: TokenCounter
) -> list[Rendering]:
    """Return growing excerpts; their tokens are summed up from those of single parts."""
    counts = {
        part.range.start: _count_part(hit, part.range, layout, separator, counter) for part in parts
    }
    excerpts = []
    for excerpt in grow_excerpts(parts):
        tokens = sum(counts[part.range.start][0] for part in excerpt)
        tokens -= (len(excerpt) - 1) * min(counts[part.range.start][1] for part in excerpt)
        runs = len(merge_ranges(hit.item.text, [part.range for part in excerpt]))
        tokens += ELLIPSIS_TOKENS * (runs - 1)
        excerpts.append(Rendering(Form.EXCERPT, "", tokens, excerpt))
    return excerpts


def _count_part(
    hit: Hit, part: Passage, layout: Layout, separator: str, counter: TokenCounter
) -> tuple[int, int]:
    """Return the tokens of an excerpt of one part, and of the block around it."""
    item = hit.item
    text = item.text[part.start : part.end]
    # The headings, code block or table around the part are shown as well: the hash covers them.
    whole = (item.id, item.type, item.title, hash(item.text))
    key = (layout.name, separator, counter, *whole, hit.via, part.start, text)
    counts = _part_tokens.get(key) if layout.is_cacheable else None
    if counts is None:
        tokens = counter.count(layout.block(hit, Form.EXCERPT, (part,)) + separator)
        counts = (tokens, max(0, tokens - counter.count(text)))
        if layout.is_cacheable:
            _part_tokens.put(key, counts)
    return counts


def finish(
    rendering: Rendering, hit: Hit, recipe: Recipe, layout: Layout, counter: TokenCounter
) -> tuple[Rendering, tuple[Passage, ...]]:
    """Return a chosen rendering with its text and exact tokens, and the ranges it shows."""
    if rendering.form is not Form.EXCERPT:
        return rendering, ()
    ranges = merge_ranges(hit.item.text, [part.range for part in rendering.parts])
    text = layout.block(hit, Form.EXCERPT, ranges)
    separator = layout.separators.get(recipe.name, layout.separator)
    tokens = counter.count(text + separator)
    return Rendering(Form.EXCERPT, text, tokens, rendering.parts), ranges
