"""Any OpenAI-compatible /chat/completions endpoint: OpenAI, Ollama, vLLM, LiteLLM, llama.cpp."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from knowloom import openai_http
from knowloom.errors import Invalid
from knowloom.ports import Completion, Message


class OpenAI:
    """Answers of a chat model, at temperature 0 unless told otherwise (`temperature=None` sends none, for models that refuse it).
    `retries` are for servers that are busy or away; what a good answer is, the caller knows."""

    def __init__(
        self,
        *,
        model: str = "",
        base_url: str = openai_http.OPENAI,
        api_key: str | None = None,
        temperature: float | None = 0.0,
        timeout_s: float = 120,
        retries: int = 3,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if not model:
            raise Invalid(
                "openai: no model; write openai:model or openai:model@http://host:port/v1"
            )
        self._remote = openai_http.Remote(
            base_url,
            "/chat/completions",
            model,
            api_key=api_key,
            timeout_s=timeout_s,
            max_retries=retries,
            code="llm_failed",
            sleep=sleep,
        )
        self._asked: dict[str, object] = {"model": model} | (
            {} if temperature is None else {"temperature": temperature}
        )
        self.name = f"openai:{model}@{self._remote.host}"

    @classmethod
    def open(cls, rest: str = "", **settings: Any) -> OpenAI:
        """From what stands behind `openai:`, such as `llama3@http://127.0.0.1:11434/v1`. What the address says wins over the settings."""
        return cls(**openai_http.settings(cls, settings, rest))

    def __repr__(self) -> str:
        return f"OpenAI({self._remote.where})"

    def close(self) -> None:
        self._remote.close()

    def complete(self, messages: Sequence[Message]) -> Completion:
        if self._remote.closed:
            raise self._remote.failed("the LLM was closed")
        sent = [{"role": one.role, "content": one.text} for one in messages]
        response = self._remote.ask(
            self._asked | {"messages": sent}, [one.text for one in messages]
        )
        try:
            choice = response.json()["choices"][0]
            said = choice["message"]
            text = said.get("content") or said.get("refusal") or ""
        except (ValueError, RecursionError) as error:
            raise self._remote.failed("the answer is not JSON") from error
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise self._remote.failed("the answer lacks choices, message or content") from error
        if not isinstance(text, str):
            raise self._remote.failed(f"the content is not text but {type(text).__name__}")
        return Completion(text, cut=choice.get("finish_reason") == "length")
