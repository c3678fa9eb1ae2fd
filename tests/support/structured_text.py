"""A text, its three layers, and helpers for tests that structure texts with a fake model."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import knowloom
from fake_llm import FakeLLM, Say
from knowloom.llms.openai import OpenAIChat

KEY = "sk-a-very-secret-key"
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
TEXT = "Starting a large-eddy run from a converged steady one saves two fifths of the warm-up."
PIECE = {
    "piece_id": "warm-start",
    "content": "Start a large-eddy run from a converged steady one: two fifths less warm-up.",
    "knowledge_type": "procedure",
    "info_type": "instructions",
    "tags": ["les", "start"],
    "embedding_text": "warm start of a transient run",
}
GOOD: dict[str, Any] = {
    "metadata": {"user:alice": {"entity_type": "user", "properties": {"team": "aero"}}},
    "pieces": [PIECE],
    "graph": {
        "nodes": [
            {"node_id": "user:alice", "node_type": "user", "label": "Alice"},
            {"node_id": "technique:les", "node_type": "technique", "label": "LES"},
        ],
        "edges": [
            {
                "source_id": "user:alice",
                "target_id": "technique:les",
                "edge_type": "SPECIALIZES_IN",
                "properties": {"piece_id": "warm-start"},
            }
        ],
    },
}

Serve = Callable[..., tuple[OpenAIChat, FakeLLM]]
Take = Callable[..., knowloom.Ingested]


def say(layers: object = GOOD, **changes: str) -> Say:
    return Say(json.dumps(layers), **changes)


def piece(**changes: object) -> dict[str, Any]:
    return {**PIECE, **changes}


def pieces(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"pieces": list(entries)}


def records(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "records").iterdir())
