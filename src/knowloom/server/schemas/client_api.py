"""Requests that `knowloom.Client` sends: batch writes, batch reads and maintenance."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from knowloom.server.schemas.context import ExplainRequest, SearchRequest
from knowloom.server.schemas.fields import (
    BulkLimit,
    Name,
    Names,
    RequestModel,
    Rows,
    SecretsPolicy,
    SpaceName,
    Version,
    Weight,
    Where,
)


class ItemReference(RequestModel):
    """The key of an item."""

    space: Name
    id: Name


class ExpectedVersion(ItemReference):
    """The version an item must still have; "" if it must be new."""

    version: Version


class EdgeReference(RequestModel):
    """The key of an edge."""

    source: Name
    target: Name
    type: Name
    space: Name
    target_space: str = ""


class BackupRequest(RequestModel):
    """A backup beside the knowledge of the server."""

    keep: Annotated[
        int | None, Field(ge=1, le=100_000, description="Delete all but so many backups")
    ] = None


class PurgeRequest(RequestModel):
    """Items to erase for good."""

    space: Name | None = None
    ids: list[Name] = Field(min_length=1, max_length=1000)


class RetentionRequest(RequestModel):
    """The days that the history of a space is kept; null: forever."""

    space: Name | None = None
    days: int | None = Field(ge=0, le=36_500)


class AddRequest(RequestModel):
    """One atomic write. Every row names its space."""

    items: Rows = Field([], max_length=10_000)
    edges: Rows = Field([], max_length=50_000)
    vectors: Annotated[
        list[list[float]] | None, Field(description="Precomputed vectors, one per item")
    ] = None
    embed: bool = True
    expected: list[ExpectedVersion] = Field([], max_length=10_000)
    secrets: SecretsPolicy = None


class LoadRequest(RequestModel):
    """Many items and edges, every row with its space. Invalid rows are reported and skipped."""

    items: Rows = Field([], max_length=10_000)
    edges: Rows = Field([], max_length=50_000)
    embed: bool = True
    layered: bool = Field(
        False, description="Rows from three layers: the node and profile of an entity are merged"
    )
    documents: bool = Field(
        False, description="Rows of documents, whose secrets are redacted by default"
    )
    secrets: SecretsPolicy = None


class ItemsRequest(RequestModel):
    """Items of a space, by id."""

    space: SpaceName = None
    ids: Annotated[list[Name], Field(max_length=10_000)]


class DeleteRequest(ItemsRequest):
    """Items to delete, with their expected versions."""

    expected: list[ExpectedVersion] = Field([], max_length=10_000)


class UnlinkRequest(RequestModel):
    """Edges to delete."""

    edges: Annotated[list[EdgeReference], Field(max_length=50_000)]


class PageRequest(RequestModel):
    """A page of the items of several spaces, starting after `after`."""

    spaces: Names
    limit: BulkLimit = 100
    after: ItemReference | None = None
    kinds: Names = Field([])
    types: Names = Field([])
    where: Where = None


class EdgePageRequest(RequestModel):
    """A page of the edges of several spaces, starting after `after`."""

    spaces: Names
    limit: BulkLimit = 100
    after: EdgeReference | None = None
    automatic: bool | None = Field(
        False,
        alias="made",
        description="Only automatic edges (true), only explicit ones (false), or both (null)",
    )


RecipeRows = Annotated[Rows, Field(min_length=1, max_length=50)]


class ClientContextRequest(ExplainRequest):
    """An explain request with options for programs: a vector, weights and whole recipes."""

    recipe: Name | RecipeRows = "knowledge"  # type: ignore[assignment]
    bm25_weight: Weight | None = None
    vector_weight: Weight | None = None
    vector: list[float] | None = None


class ClientSearchRequest(SearchRequest):
    """A search request with an optional precomputed vector."""

    vector: list[float] | None = None


class EmbedRequest(RequestModel):
    """Spaces to embed."""

    spaces: Annotated[Names | None, Field(description="null: all")] = None
