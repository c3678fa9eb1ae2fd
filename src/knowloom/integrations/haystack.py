"""A Haystack retriever; pipelines with it can be saved if the knowledge is given by address."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Self, Unpack

import knowloom
from knowloom import validation
from knowloom.errors import Invalid, unknown_name
from knowloom.filters.condition_json import validate_where, where_to_json
from knowloom.integrations.lookup import KnowledgeBase, Lookup, LookupArguments, missing_extra
from knowloom.model import Context, Hit, ItemCondition
from knowloom.options import ContextArguments, SearchArguments

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.utils import Secret
except ImportError as error:
    raise missing_extra("haystack", error) from error

# The option that filters a metadata field, by operator.
_ONLY = {"meta.kind": "kinds", "meta.space": "spaces", "meta.tags": "tags", "meta.type": "types"}
_NOT = {"meta.type": "exclude_types"}
_OPERATORS = {"==": _ONLY, "in": _ONLY, "!=": _NOT, "not in": _NOT}
_TIMES = ("as_of", "now")
_PROPERTY = "meta.properties."  # the prefix of properties of items
_COMPARISONS = {"==": "$eq", "in": "$in", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}


@component
class HaystackRetriever:
    """Retrieves the `top_k` best items (default: 10) or the blocks of one context.

    With `max_tokens` it retrieves the blocks, which fit the budget together; `top_k` is then the
    maximum number of candidates. `kb` is an engine, a client, or an address that is opened when the
    pipeline warms up and closed with it: a path for `knowloom.open` with `embedder`, or the URL of
    a server for `knowloom.Client` with `key`.
    """

    def __init__(
        self,
        kb: KnowledgeBase | str,
        *,
        spaces: Sequence[str],
        top_k: int | None = None,
        embedder: str | None = "minilm",
        key: Secret | None = None,
        **options: Unpack[LookupArguments],
    ) -> None:
        self._address = _Address(kb, embedder, key) if isinstance(kb, str) else None
        source: Any = self._address or kb
        self._lookup = Lookup.create(source, spaces, top_k, options)
        self._options = dict(options)

    def warm_up(self) -> None:
        if self._address is not None:
            self._address.open()

    def close(self) -> None:
        """Close the knowledge if it was opened by address."""
        if self._address is not None:
            self._address.close()

    def to_dict(self) -> dict[str, Any]:
        if self._address is None:
            raise Invalid(
                "a pipeline with an open engine or client cannot be saved: pass a path or URL as kb"
            )
        if not isinstance(self._lookup.recipe, str):
            raise Invalid(f"recipe must be a name in a saved pipeline, got {self._lookup.recipe!r}")
        seen = self._lookup.seen or ()
        if not isinstance(seen, Sequence) or not all(isinstance(entry, str) for entry in seen):
            raise Invalid("seen must be ids in a saved pipeline")
        options = {name: _to_yaml(value) for name, value in self._options.items()}
        if conditions := validate_where(self._lookup.where):
            options["where"] = where_to_json(conditions)
        address = {
            "kb": self._address.url,
            "embedder": self._address.embedder,
            "key": self._address.key,
        }
        return default_to_dict(
            self,
            **address,
            spaces=_to_yaml(self._lookup.spaces),
            top_k=self._lookup.limit,
            **options,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        parameters = data.get("init_parameters", {})
        times = {
            name: validation.validate_time(name, parameters[name])
            for name in _TIMES
            if parameters.get(name) is not None
        }
        return default_from_dict(cls, data | {"init_parameters": parameters | times})

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Retrieve documents.

        `filters` are Haystack's, on meta.space, meta.kind, meta.type, meta.tags and
        meta.properties.NAME, in addition to the retriever's options. In a context those on kind,
        type and tags apply to searches; links may lead to other types and kinds, but not to other
        spaces, nor to items with other properties.
        """
        base = self._lookup if top_k is None else replace(self._lookup, limit=top_k)
        lookup = apply_filters(base, filters or {})
        results = [] if lookup is None else lookup.retrieve(query)
        documents = [
            Document(
                id=result.key,
                content=result.text,
                meta=result.metadata,
                score=result.score,
            )
            for result in results
        ]
        return {"documents": documents}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        return await asyncio.to_thread(self.run, query, filters, top_k)


class _Address:
    """Knowledge given by its address, opened on first use."""

    def __init__(self, url: str, embedder: str | None, key: Secret | None) -> None:
        self.url, self.embedder, self.key = url, embedder, key
        self._kb: knowloom.Engine | knowloom.Client | None = None
        self._opening = threading.Lock()

    def open(self) -> knowloom.Engine | knowloom.Client:
        with self._opening:
            if self._kb is None:
                remote = self.url.startswith(("http://", "https://"))
                self._kb = (
                    knowloom.Client(self.url, key=self._secret())
                    if remote
                    else knowloom.open(self.url, embedder=self.embedder)
                )
            return self._kb

    def close(self) -> None:
        with self._opening:
            if self._kb is not None:
                self._kb.close()
            self._kb = None

    def search(
        self, query: str, *, spaces: Sequence[str], **options: Unpack[SearchArguments]
    ) -> list[Hit]:
        return self.open().search(query, spaces=spaces, **options)

    def context(
        self, query: str, *, spaces: Sequence[str], **options: Unpack[ContextArguments]
    ) -> Context:
        return self.open().context(query, spaces=spaces, **options)

    def _secret(self) -> str:
        return (self.key and self.key.resolve_value()) or ""


def _to_yaml(value: Any) -> Any:
    """Return a value that YAML can store: times as text, names in a list."""
    if isinstance(value, datetime):
        return value.isoformat()
    return [str(name) for name in value] if isinstance(value, list | tuple) else value


def apply_filters(lookup: Lookup, filters: Mapping[str, Any]) -> Lookup | None:
    """Return the lookup restricted by Haystack's filters; None if nothing can match."""
    for condition in _flatten(filters):
        if str(condition["field"]).startswith(_PROPERTY):
            where = (*validate_where(lookup.where), *_parse_property(condition))
            lookup = replace(lookup, where=where)
            continue
        option, values = _parse_condition(condition)
        before: Sequence[str] = getattr(lookup, option)
        if option == "tags" and before:
            raise Invalid(f"tags can be filtered only once, got {values} beside {list(before)}")
        allowed: Any = (
            [*before, *values]
            if option == "exclude_types"
            else [value for value in values if value in before or not before]
        )
        if not allowed:
            return None
        lookup = replace(lookup, **{option: allowed})
    return lookup


def _flatten(filters: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if not isinstance(filters, Mapping):
        raise Invalid(f"a filter must be a dict with field, operator and value, got {filters!r}")
    if not filters or "field" in filters:
        return [filters] if filters else []
    if filters.get("operator") != "AND":
        raise unknown_name("operator between filters", filters.get("operator"), ["AND"])
    if not isinstance(filters.get("conditions"), list):
        raise Invalid(f"AND needs a list of conditions, got {filters.get('conditions')!r}")
    return [condition for part in filters["conditions"] for condition in _flatten(part)]


def _parse_property(condition: Mapping[str, Any]) -> tuple[ItemCondition, ...]:
    """Return a filter on a property as a condition."""
    operator, name = condition.get("operator"), str(condition["field"]).removeprefix(_PROPERTY)
    if operator not in _COMPARISONS:
        raise unknown_name("operator in a filter on a property", operator, _COMPARISONS)
    return validate_where({name: {_COMPARISONS[operator]: condition.get("value")}})


def _parse_condition(condition: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the option that a condition sets, and its values."""
    operator, name = str(condition.get("operator")), str(condition["field"])
    value: Any = condition.get("value")
    if operator not in _OPERATORS:
        raise unknown_name("operator in a filter", operator, _OPERATORS)
    fields = _OPERATORS[operator]
    path = name if name.startswith("meta.") else f"meta.{name}"
    if path not in fields:
        raise unknown_name(f"field to filter with {operator!r}", name, fields)
    if isinstance(value, list) != operator.endswith("in"):
        rule = "a list" if operator.endswith("in") else "a single value"
        raise Invalid(f"the value of a filter with {operator!r} must be {rule}, got {value!r}")
    return fields[path], value if isinstance(value, list) else [value]
