"""Chat models of any OpenAI-compatible server: OpenAI, Ollama, vLLM, LiteLLM, llama.cpp."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from knowloom.errors import Invalid
from knowloom.openai_http import OPENAI_URL, OpenAITransport, resolve_settings
from knowloom.ports import Completion, Message


class OpenAIChat:
    """A chat model behind the /chat/completions endpoint of a server.

    `temperature=None` sends none, for models that reject it. `retries` are for servers that are
    busy or down; the caller judges the answer.
    """

    def __init__(
        self,
        *,
        model: str = "",
        base_url: str = OPENAI_URL,
        api_key: str | None = None,
        temperature: float | None = 0.0,
        timeout_s: float = 120,
        retries: int = 3,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if not model:
            raise Invalid(
                "openai: model is missing: use openai:model or openai:model@http://host:port/v1"
            )
        self._transport = OpenAITransport(
            base_url,
            "/chat/completions",
            model,
            api_key=api_key,
            timeout_s=timeout_s,
            max_retries=retries,
            code="llm_failed",
            sleep=sleep,
        )
        self._body: dict[str, object] = {"model": model}
        if temperature is not None:
            self._body["temperature"] = temperature
        self.name = f"openai:{model}@{self._transport.host}"

    @classmethod
    def open(cls, address: str = "", **settings: object) -> OpenAIChat:
        """Open the model of an address such as `llama3@http://127.0.0.1:11434/v1`.

        The settings are the arguments of the constructor; the address takes precedence.
        """
        return cls(**resolve_settings(cls, settings, address))

    def __repr__(self) -> str:
        return f"OpenAIChat({self._transport.description})"

    def close(self) -> None:
        self._transport.close()

    def complete(self, messages: Sequence[Message]) -> Completion:
        if self._transport.is_closed:
            raise self._transport.error("the LLM is closed")
        texts = [message.text for message in messages]
        rows = [{"role": message.role, "content": message.text} for message in messages]
        response = self._transport.post(self._body | {"messages": rows}, texts)
        try:
            choice = response.json()["choices"][0]
            answer = choice["message"]
            text = answer.get("content") or answer.get("refusal") or ""
        except (ValueError, RecursionError) as error:
            raise self._transport.error("the answer is not JSON") from error
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise self._transport.error("the answer lacks choices, message or content") from error
        if not isinstance(text, str):
            raise self._transport.error(f"the content must be text, got {type(text).__name__}")
        return Completion(text, cut=choice.get("finish_reason") == "length")
