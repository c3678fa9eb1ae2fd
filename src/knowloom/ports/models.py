"""The protocols of models: embedders, rerankers, language models, name finders, tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]
Progress = Callable[[str, int, int], None]  # stage, done, total


class LLMSettings(TypedDict, total=False):
    """Keyword arguments of `open_llm` for OpenAI-compatible servers."""

    api_key: str | None
    base_url: str
    temperature: float | None  # None: the server's default
    timeout_s: float
    retries: int


class Embedder(Protocol):
    """A model that turns texts into unit vectors. The same text always gives the same vector.

    Optional attributes: `window`, the number of tokens that it reads of a text: passages are cut to
    fit into it; `embed_queries`, like `embed`, if queries need another vector than passages;
    `is_calibrated`, if unrelated texts have a cosine near 0 already, so that vectors are stored as
    they are; `is_local`, if it works in this process and never waits for a server.
    """

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """A text that changes whenever the vectors would."""

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return a vector for each text, in order; raise Unavailable if that fails now.

        Any other error is treated as Unavailable, and so is an answer with too few or too many
        vectors, or with one that is zero, not finite or of other dimensions. A wrong order cannot
        be noticed.
        """


class Reranker(Protocol):
    """A model that scores texts by their relevance to a query."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str:
        """A text that changes whenever the scores would."""

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a score from 0 to 1 for each text, in order; raise Unavailable if that fails now.

        A text has the same score whatever other texts are scored with it. Any other error, and any
        other number of scores, is treated as Unavailable.
        """


class QueryEmbedder(Embedder, Protocol):
    """An embedder that knows whether it embeds queries or passages."""

    @property
    def has_roles(self) -> bool:
        """True if a query has another vector than a passage of the same text."""

    def embed_queries(self, texts: Sequence[str]) -> list[Vector]: ...


class TokenCounter(Protocol):
    """A counter of tokens that never returns fewer than the model will see.

    `additive`: blocks that end in a newline and begin with a visible character other than "/" can
    be counted one by one.
    """

    @property
    def name(self) -> str: ...

    @property
    def additive(self) -> bool: ...

    def count(self, text: str) -> int: ...


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation with a language model. `role` is system, user or assistant."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer of a language model. `cut`: it reached its length limit."""

    text: str
    cut: bool = False


class LLM(Protocol):
    """A language model that answers a conversation."""

    @property
    def name(self) -> str:
        """The model and its server, for records; never a key."""

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Return the answer; raise Unavailable if there is none."""


class NameFinder(Protocol):
    """A recogniser of names in texts. The same text always gives the same names."""

    @property
    def fingerprint(self) -> str:
        """A text "NAME@…" without blanks that changes whenever the names would.

        `NAME` opens the finder again.
        """

    def find(self, text: str) -> list[tuple[int, str]]:
        """Return the position of each name and the name as it is written, in order."""
