"""knowloom as a Haystack component: a text retriever for pipelines, which can be saved when it knows its knowledge by address."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Self, Unpack

import knowloom
from knowloom import validation
from knowloom.errors import Invalid, unknown
from knowloom.integrations.lookup import Knowledge, Lookup, Options, missing
from knowloom.model import Context, Hit

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.utils import Secret
except ImportError as error:
    raise missing("haystack", error) from error

# Which option narrows a field of the metadata: with "==" and "in", with "!=" and "not in".
_ONLY = {"meta.kind": "kinds", "meta.space": "spaces", "meta.tags": "tags", "meta.type": "types"}
_NOT = {"meta.type": "exclude_types"}
_OPERATORS = {"==": _ONLY, "in": _ONLY, "!=": _NOT, "not in": _NOT}
_TIMES = ("as_of", "now")


@component
class HaystackRetriever:
    """Without `max_tokens`: the `top_k` best items, 10 unless told. With it: the blocks of one context, which together fit the budget,
    and `top_k` is the most candidates to look at. `kb` is an engine, a client, or an address that is opened when the pipeline warms up
    and closed with it: a path for `knowloom.open` with `embedder`, or the URL of a server for `knowloom.Client` with `key`."""

    def __init__(
        self,
        kb: Knowledge | str,
        *,
        spaces: Sequence[str],
        top_k: int | None = None,
        embedder: str | None = "minilm",
        key: Secret | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._address = _Address(kb, embedder, key) if isinstance(kb, str) else None
        self._lookup = Lookup.of(self._address or kb, spaces, top_k, options)  # type: ignore[arg-type]
        self._options = dict(options)

    def warm_up(self) -> None:
        if self._address is not None:
            self._address.open()

    def close(self) -> None:
        """Closes what it has opened itself."""
        if self._address is not None:
            self._address.close()

    def to_dict(self) -> dict[str, Any]:
        if self._address is None:
            raise Invalid(
                "a pipeline with an open engine or client cannot be saved: give the retriever its path or URL as kb"
            )
        if not isinstance(self._lookup.recipe, str):
            raise Invalid(
                f"a pipeline can be saved with a recipe by name only, not with {self._lookup.recipe!r}"
            )
        said = {name: _plain(value) for name, value in self._options.items()}
        where = {
            "kb": self._address.url,
            "embedder": self._address.embedder,
            "key": self._address.key,
        }
        return default_to_dict(
            self, **where, spaces=_plain(self._lookup.spaces), top_k=self._lookup.limit, **said
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        given = data.get("init_parameters", {})
        times = {
            name: validation.time(name, given[name])
            for name in _TIMES
            if given.get(name) is not None
        }
        return default_from_dict(cls, data | {"init_parameters": given | times})

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """`filters` are Haystack's, on meta.space, meta.kind, meta.type and meta.tags; they narrow what the retriever
        finds anyway. In a context they hold for what search finds; its links may lead on to other types and kinds, never to other spaces."""
        lookup = narrowed(
            self._lookup if top_k is None else replace(self._lookup, limit=top_k), filters or {}
        )
        found = [] if lookup is None else lookup.passages(query)
        return {
            "documents": [
                Document(id=one.key, content=one.text, meta=one.metadata, score=one.score)
                for one in found
            ]
        }

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        return await asyncio.to_thread(self.run, query, filters, top_k)


class _Address:
    """Knowledge by its address, opened when it is needed."""

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

    def search(self, query: str, **options: Any) -> list[Hit]:
        return self.open().search(query, **options)

    def context(self, query: str, **options: Any) -> Context:
        return self.open().context(query, **options)

    def _secret(self) -> str:
        return (self.key and self.key.resolve_value()) or ""


def _plain(value: Any) -> Any:
    """As YAML can keep it: times as text, names in a list."""
    if isinstance(value, datetime):
        return value.isoformat()
    return [str(one) for one in value] if isinstance(value, list | tuple) else value


def narrowed(lookup: Lookup, filters: Mapping[str, Any]) -> Lookup | None:
    """The lookup with Haystack's filters; None when nothing can pass them."""
    for condition in _conditions(filters):
        option, values = _restriction(condition)
        before: Sequence[str] = getattr(lookup, option)
        if option == "tags" and before:
            raise Invalid(f"tags can be filtered once; {list(before)} are asked for already")
        kept: Any = (
            [*before, *values]
            if option == "exclude_types"
            else [value for value in values if value in before or not before]
        )
        if not kept:
            return None
        lookup = replace(lookup, **{option: kept})
    return lookup


def _conditions(filters: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if not isinstance(filters, Mapping):
        raise Invalid(f"a filter is a dict with field, operator and value, not {filters!r}")
    if not filters or "field" in filters:
        return [filters] if filters else []
    if filters.get("operator") != "AND":
        raise unknown("operator between filters", filters.get("operator"), ["AND"])
    if not isinstance(filters.get("conditions"), list):
        raise Invalid(f"AND takes a list of conditions, not {filters.get('conditions')!r}")
    return [one for part in filters["conditions"] for one in _conditions(part)]


def _restriction(condition: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The option of knowloom that a condition sets, and its values."""
    operator, name = str(condition.get("operator")), str(condition["field"])
    value: Any = condition.get("value")
    if operator not in _OPERATORS:
        raise unknown("operator in a filter", operator, _OPERATORS)
    fields, whole = _OPERATORS[operator], name if name.startswith("meta.") else f"meta.{name}"
    if whole not in fields:
        raise unknown(f"field to filter with {operator!r}", name, fields)
    if isinstance(value, list) != operator.endswith("in"):
        raise Invalid(
            f"a filter with {operator!r} takes {'a list' if operator.endswith('in') else 'one value'}, not {value!r}"
        )
    return fields[whole], value if isinstance(value, list) else [value]
