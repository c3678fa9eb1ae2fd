"""A fake model, knowledge in memory, and a call that ingests a text into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from structured_text import KEY, NOW, TEXT, Serve

import knowloom
from fake_llm import FakeLLM, Say
from knowloom.llms.openai import OpenAIChat


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def serve(waits: list[float]) -> Iterator[Serve]:
    """Start a server that follows a script, and a language model that calls it."""
    with ExitStack() as stack:

        def start(*script: Say | str, **settings: Any) -> tuple[OpenAIChat, FakeLLM]:
            server = stack.enter_context(FakeLLM(script))
            usual: dict[str, Any] = {
                "base_url": server.base_url,
                "model": "fake",
                "api_key": KEY,
                "sleep": waits.append,
            }
            return stack.enter_context(closing(OpenAIChat(**usual | settings))), server

        yield start


@pytest.fixture
def kb() -> Iterator[knowloom.Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        yield kb


@pytest.fixture
def take(kb: knowloom.Engine, tmp_path: Path) -> Callable[..., knowloom.Ingested]:
    def ingest(llm: Any, text: str = TEXT, **options: Any) -> knowloom.Ingested:
        return kb.ingest(
            text,
            **{
                "llm": llm,
                "space": "team",
                "record_dir": tmp_path / "records",
                "now": NOW,
                **options,
            },
        )

    return ingest
