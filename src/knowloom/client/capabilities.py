"""What a client can ask of a server beside the calls of the engine: graph contexts, assemblies, provisions, checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from knowloom import validation
from knowloom.axioms.checker import Checked
from knowloom.capabilities.assembler import validation as assembling
from knowloom.capabilities.assembler.model import Assembly, AssemblyRequest
from knowloom.capabilities.graph.documents import Document, checked
from knowloom.capabilities.graph.model import GraphAnswer
from knowloom.capabilities.provider.model import Provision
from knowloom.client import requests
from knowloom.client.transport import Transport
from knowloom.errors import Invalid
from knowloom.wire import capabilities

Row = dict[str, Any]
T = TypeVar("T")


class Capable:
    """Asks its server. Values and errors are those of the capabilities; a program moves from one to the other by changing a URL."""

    _transport: Transport

    def graph(
        self,
        *,
        spaces: Sequence[str],
        query: str | None = None,
        entities: Sequence[str] | None = None,
        document: Document | None = None,
        **options: Any,
    ) -> GraphAnswer:
        """A graph context for a query, for entities or for a document; `knowloom.GraphContext(client, spaces)` asks by this. Options are those of
        GraphOptions, `now`, `as_of`, `vector` and `tier`; a ranker is one of the server's, by name."""
        about = {
            "query": query,
            "entities": entities,
            "document": None if document is None else _document(checked(document)),
        }
        if not isinstance(options.get("ranker", ""), str):
            raise Invalid(
                "a ranker of one's own cannot be sent to a server: name one of its rankers"
            )
        given = {
            name: list(value) if isinstance(value, tuple | set | frozenset) else value
            for name, value in options.items()
            if name != "tier"
        }
        said = {name: value for name, value in about.items() if value is not None}
        body = (
            {"spaces": requests.names("spaces", spaces)}
            | said
            | requests.sendable(given)
            | requests.tier(options.get("tier"))
        )
        return self._transport.read("/api/graph", body, capabilities.graph)

    def assemble(
        self,
        request: AssemblyRequest | str,
        *,
        strategies: Mapping[str, Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> Assembly:
        """One text of document, selection, retrieval, knowledge and memory, as `knowloom.Assembler` makes it, by the server's strategies. Options
        are the fields of AssemblyRequest; `strategies` is what is changed of them, by name: {"document": {"required": True}}."""
        if isinstance(request, AssemblyRequest) and options:
            raise Invalid(
                f"options go with a text, not with an AssemblyRequest: {', '.join(sorted(options))}"
            )
        asked = assembling.checked(
            request
            if isinstance(request, AssemblyRequest)
            else assembling.request(request, options)
        )
        names = ("max_tokens", "entity", "agent", "format", "model")
        body: Row = {
            "query": asked.text,
            "spaces": requests.names("spaces", asked.spaces),
            "fragments": True,
        }
        body |= (
            {name: getattr(asked, name) for name in names}
            | requests.sendable({"now": asked.now, "as_of": asked.as_of})
            | requests.tier(asked.tier)
        )
        if asked.document is not None:
            title = "" if isinstance(asked.document, str) else asked.document.title
            body["document"] = {"title": title, "content": asked.content}
        if asked.selection is not None:
            body["selection"] = dict(zip(("start", "end"), asked.selection, strict=True))
        return self._transport.read(
            "/api/assemble",
            body | {"strategies": {name: dict(one) for name, one in (strategies or {}).items()}},
            capabilities.assembly,
        )

    def provide(self, query: str, *, spaces: Sequence[str], **options: Any) -> Provision:
        """What is known for a request by prompt section, as `Provider.provide` gives it; of what was found its names alone. Options are the
        fields of `POST /api/provide`."""
        given = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in options.items()
            if name != "tier"
        }
        body = (
            {"query": query, "spaces": requests.names("spaces", spaces)}
            | requests.sendable(given)
            | requests.tier(options.get("tier"))
        )
        return self._transport.read(
            "/api/provide", body, lambda row: capabilities.provision(query, row)
        )

    def check(self, spaces: str | Sequence[str]) -> Checked:
        """Every entity, relationship and claim of the spaces against the axioms stored there."""
        names = validation.names("spaces", [spaces] if isinstance(spaces, str) else spaces)
        return self._transport.read("/api/check", {"spaces": list(names)}, capabilities.checked)


def _document(document: Document) -> Row:
    links = [
        {"mention": one.mention, "entity_id": one.entity_id, "confidence": float(one.confidence)}
        for one in document.linked_entities
    ]
    selection = None if document.selection is None else list(document.selection)
    return {
        "id": document.id,
        "title": document.title,
        "content": document.content,
        "linked_entities": links,
        "selection": selection,
    }
