"""Memories, search results and memory contexts as JSON, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import datetime

from knowloom import codec
from knowloom.capabilities.memory.analytics import Summary
from knowloom.capabilities.memory.model import (
    ContextPreview,
    ContextResult,
    Omitted,
    RelatedMemory,
    Remembered,
    SearchResult,
    SearchResults,
)
from knowloom.wire import JsonObject
from knowloom.wire.contexts import problem_to_json, problems_from_json
from knowloom.wire.knowledge import edge_from_json, edge_to_json

FIELDS = tuple(field.name for field in fields(Remembered))
TIMES = tuple(name for name in FIELDS if name.endswith("_at") or name == "valid_from")


def memory_to_json(memory: Remembered) -> JsonObject:
    """Return every field; times in ISO 8601."""
    return {
        "id": memory.id,
        "workspace": memory.workspace,
        "conversation": memory.conversation,
        "type": memory.type,
        "content": memory.content,
        "title": memory.title,
        "confidence": memory.confidence,
        "metadata": dict(memory.metadata),
        "created_at": _time_to_json(memory.created_at),
        "updated_at": _time_to_json(memory.updated_at),
        "last_accessed_at": _time_to_json(memory.last_accessed_at),
        "accesses": memory.accesses,
        "pinned": memory.pinned,
        "valid_from": _time_to_json(memory.valid_from),
        "expires_at": _time_to_json(memory.expires_at),
        "superseded_by": memory.superseded_by,
    }


def memory_from_json(row: JsonObject) -> Remembered:
    times = {name: None if row[name] is None else codec.text_to_time(row[name]) for name in TIMES}
    return Remembered(**{name: row[name] for name in FIELDS} | times)


def _time_to_json(time: datetime | None) -> str | None:
    return None if time is None else codec.time_to_text(time)


def search_result_to_json(result: SearchResult) -> JsonObject:
    related = [
        {
            "memory": memory_to_json(link.memory),
            "relationship": edge_to_json(link.relationship),
            "depth": link.depth,
        }
        for link in result.relationships
    ]
    return {
        "memory": memory_to_json(result.memory),
        "score": result.score,
        "rank": result.rank,
        "relationships": related,
        "links": [edge_to_json(edge) for edge in result.links],
    }


def search_results_to_json(results: SearchResults) -> JsonObject:
    degraded = [problem_to_json(problem) for problem in results.degraded]
    return {**memories_to_json(results), "degraded": degraded}


def memories_to_json(results: Sequence[SearchResult]) -> JsonObject:
    return {"memories": [search_result_to_json(result) for result in results]}


def search_results_from_json(row: JsonObject) -> SearchResults:
    results = map(_search_result_from_json, row["memories"])
    return SearchResults(results, problems_from_json({"degraded": row.get("degraded", [])}))


def _search_result_from_json(row: JsonObject) -> SearchResult:
    related = tuple(
        RelatedMemory(
            memory_from_json(link["memory"]), edge_from_json(link["relationship"]), link["depth"]
        )
        for link in row["relationships"]
    )
    links = tuple(edge_from_json(edge) for edge in row["links"])
    return SearchResult(memory_from_json(row["memory"]), row["score"], row["rank"], related, links)


def summaries_to_json(summaries: Sequence[Summary]) -> JsonObject:
    return {"summaries": [asdict(summary) for summary in summaries]}


def summaries_from_json(row: JsonObject) -> list[Summary]:
    return [Summary(**summary) for summary in row["summaries"]]


def memory_context_to_json(context: ContextResult) -> JsonObject:
    return {
        "context": context.context,
        "token_count": context.token_count,
        **memories_to_json(context.memories),
        "truncated": context.truncated,
        "template": context.template,
        "degraded": [problem_to_json(problem) for problem in context.degraded],
    }


def memory_context_from_json(row: JsonObject) -> ContextResult:
    return ContextResult(
        row["context"],
        row["token_count"],
        tuple(search_results_from_json(row)),
        row["truncated"],
        row["template"],
        problems_from_json(row),
    )


def memory_preview_to_json(preview: ContextPreview) -> JsonObject:
    return memory_context_to_json(preview) | {
        "memory_ids": list(preview.memory_ids),
        "ranking_scores": dict(preview.ranking_scores),
        "budget_used": preview.budget_used,
        "left_out": [
            {
                "id": omission.id,
                "rank": omission.rank,
                "tokens": omission.tokens,
                "reason": omission.reason,
            }
            for omission in preview.left_out
        ],
    }


def memory_preview_from_json(row: JsonObject) -> ContextPreview:
    context = memory_context_from_json(row)
    left_out = tuple(
        Omitted(omission["id"], omission["rank"], omission["tokens"], omission["reason"])
        for omission in row["left_out"]
    )
    return ContextPreview(
        context.context,
        context.token_count,
        context.memories,
        context.truncated,
        context.template,
        context.degraded,
        tuple(row["memory_ids"]),
        row["ranking_scores"],
        row["budget_used"],
        left_out,
    )
