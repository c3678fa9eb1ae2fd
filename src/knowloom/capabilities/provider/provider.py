"""Provider: called with a request's text, it gives what is known for it by prompt section."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, get_args

from knowloom import options as request
from knowloom import tiers, tokens, validation
from knowloom.capabilities.provider import formats as formatting
from knowloom.capabilities.provider.formats import Format, Outline, sections
from knowloom.capabilities.provider.model import Provision, Retrieval
from knowloom.capabilities.provider.packing import Section, fit
from knowloom.capabilities.provider.retrieval import Scope, Wanted, retrieve
from knowloom.capabilities.provider.sections import routed
from knowloom.engine import Engine
from knowloom.errors import Invalid, KnowloomError, unknown
from knowloom.model import Problem
from knowloom.recipes import Mode

log = logging.getLogger(__name__)

FOR_RETRIEVAL = (
    "top_k",
    "types",
    "tags",
    "mode",
    "min_score",
    "scope",
    "graph_traversal_depth",
    "graph_limit",
    "edge_types",
    "as_of",
    "now",
)
WHOLE_NUMBERS = {
    "top_k": (1, request.MAX_LIMIT),
    "graph_traversal_depth": (0, 10),
    "graph_limit": (1, request.MAX_LIMIT),
}


class Provider:
    """Knowledge for an agent that works for `entity_id`. It holds no connection of its own: close the engine. `spaces` may be left out
    where there is just one.

    `formats` says how a section is written ("*": all others): a `.format` text per entry, a Template or a function of the entries.
    `max_tokens` is for all sections together (None: no limit), `caps` for single ones; both are counted on what is returned.
    Options of the retrieval: top_k=10, types, tags, mode="hybrid", min_score=0.0, scope="entity" (or "all"), graph_traversal_depth=2,
    graph_limit=50, edge_types; a call may give others, and `now` and `as_of`. `tier` as for `Engine.context`: profiles and links are for `teams`
    and `enterprise`, so that a call under another tier is Forbidden."""

    def __init__(
        self,
        kb: Engine,
        *,
        spaces: Sequence[str] | None = None,
        entity_id: str | None = None,
        formats: Mapping[str, Format] | None = None,
        max_tokens: int | None = 2000,
        caps: Mapping[str, int] | None = None,
        model: str = "gpt-4",
        metadata_info_type: str = "user_profile",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        tier: tiers.Given = None,
        **options: Any,
    ) -> None:
        if not isinstance(kb, Engine):
            raise Invalid(
                f"a provider needs an engine that knowloom.open gave, not {type(kb).__name__}"
            )
        self._kb, self._clock, self._options, self._tier = kb, clock, options, tier
        self._spaces = _the_only_one(kb) if spaces is None else validation.names("spaces", spaces)
        if not self._spaces:
            raise Invalid("spaces must name at least one space")
        self._entity_id = None if entity_id is None else validation.name("entity_id", entity_id)
        self._formats = formatting.checked(formats or {})
        self._max_tokens = request.budget(max_tokens)
        if not isinstance(caps or {}, Mapping):
            raise Invalid(
                f"caps must be a mapping of sections to tokens, not {type(caps).__name__}"
            )
        self._caps = {
            validation.name("caps", name): request.whole(
                f"the cap of {name!r}", cap, 0, 100_000_000
            )
            for name, cap in (caps or {}).items()
        }
        self._counter = tokens.counter(model)
        self._metadata_info_type = validation.name("metadata_info_type", metadata_info_type)
        self._wanted("", {})

    def __call__(self, text: str) -> dict[str, str]:
        """Text by section, ready for `merge_feed`. What went wrong is logged; `provide` tells it."""
        found = self.provide(text)
        for problem in found.degraded:
            log.warning("provider: %s: %s", problem.part, problem.reason)
        return dict(found.sections)

    def retrieve(self, query: str, **options: Any) -> Retrieval:
        """What the three layers found, before anything is left out."""
        tiers.check_full(tiers.in_force(self._tier), "the provider")
        return retrieve(self._kb, self._wanted(query, options))

    def provide(
        self, query: str, *, max_tokens: int | str | None = "as set", **options: Any
    ) -> Provision:
        """Text by section with its tokens, what did not fit, and what went wrong."""
        budget = self._budget(max_tokens)
        found = self.retrieve(query, **options)
        ready, problems = self._sections(found)
        fitted = fit(ready, budget, self._counter)
        degraded = (*found.degraded, *problems, *fitted.problems)
        return Provision(
            fitted.texts, fitted.tokens, self._counter.name, found, fitted.left_out, degraded
        )

    def text(self, query: str, *, max_tokens: int | str | None = "as set", **options: Any) -> str:
        """Everything in one text, within the budget. Options of its look: section_delimiter, item_delimiter, include_tags, include_scores."""
        outline = Outline(
            **{one.name: options.pop(one.name) for one in fields(Outline) if one.name in options}
        )
        budget = self._budget(max_tokens)
        found = self.retrieve(query, **options)
        for problem in found.degraded:
            log.warning("provider: %s: %s", problem.part, problem.reason)
        return outline.section_delimiter.join(
            fit(
                sections(found, outline), budget, self._counter, outline.section_delimiter
            ).texts.values()
        )

    def _budget(self, given: int | str | None) -> int | None:
        return self._max_tokens if given == "as set" else request.budget(given)

    def _sections(self, found: Retrieval) -> tuple[list[Section], list[Problem]]:
        """Those whose entries can be written; one whose format fails is told and left out."""
        ready, problems = [], []
        for name, entries in routed(found, self._metadata_info_type).items():
            try:
                ready.append(formatting.section(name, entries, self._formats, self._caps.get(name)))
            except KnowloomError as error:
                problems.append(Problem(name, str(error), error.code))
        return ready, problems

    def _wanted(self, query: str, options: Mapping[str, Any]) -> Wanted:
        given = {
            name: value for name, value in {**self._options, **options}.items() if value is not None
        }
        for name in given:
            if name not in FOR_RETRIEVAL:
                raise unknown("option", name, FOR_RETRIEVAL)
        for name, (least, most) in WHOLE_NUMBERS.items():
            if name in given:
                request.whole(name, given[name], least, most)
        for name in ("types", "tags", "edge_types"):
            given[name] = validation.names(name, given.get(name, ()))
        for name in ("now", "as_of"):
            if name in given:
                given[name] = validation.time(name, given[name])
        if given.get("scope", "entity") not in get_args(Scope):
            raise unknown("scope", given["scope"], get_args(Scope))
        now = given.pop("now", None) or validation.time("now", self._clock())
        wanted = replace(
            Wanted(request.text(query), tuple(self._kb.known(self._spaces)), now, self._entity_id),
            **given,
        )
        request.fraction("min_score", wanted.min_score)
        if wanted.mode not in get_args(Mode):
            raise unknown("mode", wanted.mode, get_args(Mode))
        return wanted


def _the_only_one(kb: Engine) -> tuple[str, ...]:
    """The space of knowledge that has no other: among several, one is never chosen by itself."""
    known = tuple(info.name for info in kb.stats().spaces)
    if len(known) != 1:
        raise Invalid(f"spaces must be named; known: {', '.join(known) or 'none yet'}")
    return known
