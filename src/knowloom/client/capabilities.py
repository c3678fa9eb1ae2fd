"""Calls of the client for capabilities: graph contexts, assemblies, provisions and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from knowloom.axioms.checker import Checked
from knowloom.capabilities.assembler.model import Assembly, AssemblyArguments, AssemblyRequest
from knowloom.capabilities.assembler.validation import build_request, validate_request
from knowloom.capabilities.graph.documents import Document, validate_document
from knowloom.capabilities.graph.model import GraphAnswer
from knowloom.capabilities.graph.options import GraphArguments
from knowloom.capabilities.provider.model import Provision
from knowloom.capabilities.provider.options import ProviderArguments
from knowloom.capabilities.related import DEFAULT_LIMIT
from knowloom.client.requests import encode_names, encode_options, encode_spaces, encode_tier
from knowloom.client.transport import Transport
from knowloom.errors import Invalid
from knowloom.model import Hits
from knowloom.templates.template import Template
from knowloom.tiers import TierArgument
from knowloom.validation import validate_name
from knowloom.wire import JsonObject
from knowloom.wire.assembly import assembly_from_json
from knowloom.wire.axioms import check_from_json
from knowloom.wire.contexts import format_to_json, hits_from_json
from knowloom.wire.graph import graph_from_json
from knowloom.wire.provision import provision_from_json


class ProvisionArguments(ProviderArguments, total=False):
    """Keyword arguments of `Client.provide`: those of a retrieval and of the provider."""

    entity_id: str | None
    max_tokens: int | None
    caps: Mapping[str, int]
    formats: Mapping[str, str | Template]
    model: str
    strict: bool
    metadata_info_type: str
    tier: TierArgument


class RemoteCapabilities:
    """The capabilities on a server, with their values and errors."""

    _transport: Transport

    def graph(
        self,
        *,
        spaces: Sequence[str] | None = None,
        query: str | None = None,
        entities: Sequence[str] | None = None,
        document: Document | None = None,
        now: datetime | None = None,
        as_of: datetime | None = None,
        vector: Sequence[float] | None = None,
        **options: Unpack[GraphArguments],
    ) -> GraphAnswer:
        """Return a graph context for a query, entities or a document.

        `knowloom.GraphContext(client, spaces)` calls it. A ranker is given by name.
        """
        if not isinstance(options.get("ranker", ""), str):
            raise Invalid("a ranker object cannot be sent to a server: pass the name of a ranker")
        body = encode_spaces(spaces)
        if query is not None:
            body["query"] = query
        if entities is not None:
            body["entities"] = entities
        if document is not None:
            body["document"] = _document_to_json(validate_document(document))
        body |= encode_options({"now": now, "as_of": as_of, "vector": vector})
        return self._transport.read("/api/graph", body | _encode_values(options), graph_from_json)

    def assemble(
        self,
        request: AssemblyRequest | str,
        *,
        strategies: Mapping[str, Mapping[str, Any]] | None = None,
        **options: Unpack[AssemblyArguments],
    ) -> Assembly:
        """Return one text of document, selection, retrieval, knowledge and memory.

        It is built as by `knowloom.Assembler`, with the strategies of the server; `strategies`
        overrides their settings by name: {"document": {"required": True}}.
        """
        valid = validate_request(build_request(request, options))
        body: JsonObject = {
            "query": valid.text,
            "spaces": encode_names("spaces", valid.spaces),
            "fragments": True,
        }
        names = "max_tokens entity agent format model strict now as_of where".split()
        body |= encode_options({name: getattr(valid, name) for name in names})
        body |= encode_tier(valid.tier)
        if valid.document is not None:
            title = "" if isinstance(valid.document, str) else valid.document.title
            body["document"] = {"title": title, "content": valid.content}
        if valid.selection is not None:
            body["selection"] = dict(zip(("start", "end"), valid.selection, strict=True))
        body["strategies"] = {name: dict(value) for name, value in (strategies or {}).items()}
        return self._transport.read("/api/assemble", body, assembly_from_json)

    def provide(
        self,
        query: str,
        *,
        spaces: Sequence[str] | None = None,
        **options: Unpack[ProvisionArguments],
    ) -> Provision:
        """Return the knowledge for a request by prompt section, as `Provider.provide` does.

        Items have their ids and sections only. Formats are texts or templates: functions stay here.
        """
        body: JsonObject = {"query": query} | encode_spaces(spaces) | _encode_values(options)
        if "formats" in options:
            body["formats"] = _encode_formats(options["formats"])
        return self._transport.read(
            "/api/provide", body, lambda row: provision_from_json(query, row)
        )

    def spaces(self) -> dict[str, int]:
        """Return the spaces that the key may read, with their numbers of items."""
        return self._transport.read(
            "/api/spaces", None, lambda row: {info["name"]: info["items"] for info in row["spaces"]}
        )

    def related(
        self, id: str, *, space: str | Sequence[str] | None = None, limit: int = DEFAULT_LIMIT
    ) -> Hits:
        """Return the items that edges connect with an item; see `knowloom.find_related`."""
        spaces = encode_spaces([space] if isinstance(space, str) else space)
        body = {"id": validate_name("id", id), "limit": limit} | spaces
        return self._transport.read("/api/related", body, hits_from_json)

    def check(self, spaces: str | Sequence[str] | None = None) -> Checked:
        """Check entities, relationships and claims against the axioms of their spaces.

        None: those of all spaces that the key may read.
        """
        body = encode_spaces([spaces] if isinstance(spaces, str) else spaces)
        return self._transport.read("/api/check", body, check_from_json)


def _encode_values(options: Mapping[str, Any]) -> JsonObject:
    values: JsonObject = {
        name: list(value) if isinstance(value, tuple | set | frozenset) else value
        for name, value in options.items()
        if name != "tier"
    }
    if "format" in values:
        values["format"] = format_to_json(values["format"])
    return encode_options(values) | encode_tier(options.get("tier"))


def _encode_formats(formats: Mapping[str, str | Template]) -> JsonObject:
    for section, value in formats.items():
        if not isinstance(value, str | Template):
            rule = "a text or a Template: a function cannot be sent to a server"
            raise Invalid(f"formats: {section!r} must be {rule}, got {type(value).__name__}")
    return {
        section: {"source": value.source, "engine": value.engine}
        if isinstance(value, Template)
        else value
        for section, value in formats.items()
    }


def _document_to_json(document: Document) -> JsonObject:
    links = [
        {"mention": link.mention, "entity_id": link.entity_id, "confidence": float(link.confidence)}
        for link in document.linked_entities
    ]
    return {
        "id": document.id,
        "title": document.title,
        "content": document.content,
        "linked_entities": links,
        "selection": None if document.selection is None else list(document.selection),
    }
