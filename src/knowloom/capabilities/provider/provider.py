"""The Provider: knowledge for a request, as text by prompt section."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Unpack

from knowloom import options as engine_options
from knowloom import tiers, tokens, validation
from knowloom.capabilities.provider import formats as section_formats
from knowloom.capabilities.provider.formats import Format
from knowloom.capabilities.provider.model import Provision, Retrieval
from knowloom.capabilities.provider.options import (
    OTHER_NAMES,
    ProviderArguments,
    ProviderRequest,
    TextArguments,
    parse_options,
)
from knowloom.capabilities.provider.outline import Outline, outline_sections
from knowloom.capabilities.provider.packing import Section, pack_sections
from knowloom.capabilities.provider.retrieval import retrieve_layers
from knowloom.capabilities.provider.sections import route_entries
from knowloom.engine import Engine
from knowloom.errors import Invalid, KnowloomError
from knowloom.model import Problem

log = logging.getLogger(__name__)

DEFAULT_BUDGET = "as set"
OUTLINE_FIELDS = tuple(field.name for field in fields(Outline))


class Provider:
    """Knowledge for an agent that works for `entity_id`.

    It holds no connection of its own: close the engine. Without `spaces` it is about the only one.

    `formats` maps a section ("*": all others) to a `.format` string per entry, a Template, or a
    function of the entries. `max_tokens` is the budget of all sections together (None: no limit),
    `caps` those of single sections; both are counted on the returned text. Keyword options are the
    defaults of each call. Profiles and relations require the tier `teams` or `enterprise`, custom
    formats require `enterprise`; a call under another tier raises Forbidden.
    """

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
        strict: bool = False,
        metadata_info_type: str = "user_profile",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        tier: tiers.TierArgument = None,
        **options: Unpack[ProviderArguments],
    ) -> None:
        if not isinstance(kb, Engine):
            raise Invalid(f"kb must be an engine from knowloom.open, got {type(kb).__name__}")
        self._kb, self._clock, self._tier = kb, clock, tier
        self._options = validation.merge_names(options, OTHER_NAMES)
        self._spaces = (
            (kb.reader.resolve_space(None),)
            if spaces is None
            else validation.validate_names("spaces", spaces)
        )
        if not self._spaces:
            raise Invalid("spaces must name at least one space")
        self._entity_id = (
            None if entity_id is None else validation.validate_name("entity_id", entity_id)
        )
        self._formats = section_formats.parse_formats(formats or {})
        self._max_tokens = engine_options.validate_budget(max_tokens)
        self._caps = _validate_caps(caps or {})
        model = tokens.strict_model(model, validation.validate_bool("strict", strict))
        self._counter, self._notices = tokens.get_counter(model), tokens.estimate_notices(model)
        self._metadata_section = validation.validate_name("metadata_info_type", metadata_info_type)
        self._build_request("", {})

    def __call__(self, text: str) -> dict[str, str]:
        """Return text by section, ready for `merge_feed`. Problems are logged."""
        provision = self.provide(text)
        _log_problems(provision.degraded)
        return dict(provision.sections)

    def retrieve(self, query: str, **options: Unpack[ProviderArguments]) -> Retrieval:
        """Return the results of the three layers before packing."""
        return self._retrieve(query, options)

    def provide(
        self,
        query: str,
        *,
        max_tokens: int | str | None = DEFAULT_BUDGET,
        **options: Unpack[ProviderArguments],
    ) -> Provision:
        """Return text by section with its tokens, the entries left out, and problems."""
        budget = self._resolve_budget(max_tokens)
        if self._formats:
            tiers.check_custom(tiers.resolve_tier(self._tier), "custom formats")
        retrieval = self._retrieve(query, options)
        sections, problems = self._format_sections(retrieval, budget)
        packed = pack_sections(sections, budget, self._counter)
        return Provision(
            packed.texts,
            packed.tokens,
            self._counter.name,
            retrieval,
            packed.left_out,
            (*retrieval.degraded, *problems, *packed.problems, *self._notices),
        )

    def text(
        self,
        query: str,
        *,
        max_tokens: int | str | None = DEFAULT_BUDGET,
        **options: Unpack[TextArguments],
    ) -> str:
        """Return everything as one text within the budget."""
        arguments: dict[str, Any] = {**options}
        layout = {name: arguments.pop(name) for name in OUTLINE_FIELDS if name in arguments}
        outline = Outline(**layout)
        budget = self._resolve_budget(max_tokens)
        retrieval = self._retrieve(query, arguments)
        _log_problems((*retrieval.degraded, *self._notices))
        delimiter = outline.section_delimiter
        sections = outline_sections(retrieval, outline, budget)
        return delimiter.join(
            pack_sections(sections, budget, self._counter, delimiter).texts.values()
        )

    def _retrieve(self, query: str, arguments: Mapping[str, Any]) -> Retrieval:
        tiers.check_full(tiers.resolve_tier(self._tier), "the provider")
        return retrieve_layers(self._kb, self._build_request(query, arguments))

    def _resolve_budget(self, max_tokens: int | str | None) -> int | None:
        return (
            self._max_tokens
            if max_tokens == DEFAULT_BUDGET
            else engine_options.validate_budget(max_tokens)
        )

    def _format_sections(
        self, retrieval: Retrieval, budget: int | None
    ) -> tuple[list[Section], list[Problem]]:
        """Return the sections that can be rendered, and a problem for each other one."""
        sections, problems = [], []
        for name, entries in route_entries(retrieval, self._metadata_section, budget).items():
            cap = self._caps.get(name)
            try:
                sections.append(section_formats.format_section(name, entries, self._formats, cap))
            except KnowloomError as error:
                problems.append(Problem.from_error(name, error))
        return sections, problems

    def _build_request(self, query: str, arguments: Mapping[str, Any]) -> ProviderRequest:
        options = parse_options(self._options | validation.merge_names(arguments, OTHER_NAMES))
        now = options.now or validation.validate_time("now", self._clock())
        spaces = tuple(self._kb.reader.resolve_spaces(self._spaces))
        return ProviderRequest(
            validation.validate_query(query), spaces, now, self._entity_id, options
        )


def _log_problems(problems: Sequence[Problem]) -> None:
    for problem in problems:
        log.warning("provider: %s: %s", problem.part, problem.reason)


def _validate_caps(caps: Mapping[str, int]) -> dict[str, int]:
    if not isinstance(caps, Mapping):
        raise Invalid(f"caps must be a mapping of sections to tokens, got {type(caps).__name__}")
    return {
        validation.validate_name("caps", name): validation.validate_int(
            f"the cap of {name!r}", cap, 0, 100_000_000
        )
        for name, cap in caps.items()
    }
