"""Rerankers behind HTTP: the endpoints of Cohere, Jina and Text Embeddings Inference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import httpx

from knowloom.errors import Invalid
from knowloom.openai_http import ADDRESS, OpenAITransport
from knowloom.validation import validate_int

PATH = "/rerank"
TIMEOUT_S = 5.0
BATCH_SIZE = 32  # texts a request: what Text Embeddings Inference accepts by default
MAX_CHARS = 8_000  # characters of a text
CODE = "rerank"


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of a service's requests and responses."""

    name: str
    base_url: str  # "" if there is no default
    model: str
    score: str  # the field of a result with its score
    body: Callable[[str, str, Sequence[str]], Mapping[str, object]]
    rows: Callable[[Any], Any]  # the results of a response


def _hosted_body(model: str, query: str, texts: Sequence[str]) -> Mapping[str, object]:
    documents = list(texts)
    return {"model": model, "query": query, "documents": documents, "top_n": len(documents)}


def _tei_body(_: str, query: str, texts: Sequence[str]) -> Mapping[str, object]:
    return {"query": query, "texts": list(texts), "raw_scores": False, "truncate": True}


COHERE = Shape(
    "cohere",
    "https://api.cohere.com/v2",
    "rerank-v3.5",
    "relevance_score",
    _hosted_body,
    lambda answer: answer["results"],
)
JINA = Shape(
    "jina",
    "https://api.jina.ai/v1",
    "jina-reranker-v2-base-multilingual",
    "relevance_score",
    lambda model, query, texts: {**_hosted_body(model, query, texts), "return_documents": False},
    lambda answer: answer["results"],
)
TEI = Shape("tei", "", "reranker", "score", _tei_body, lambda answer: answer)


class ServerReranker:
    """A reranker behind the endpoint /rerank of a server: one attempt, somebody is waiting.

    Errors contain neither the key nor the texts.
    """

    is_local = False

    def __init__(
        self,
        shape: Shape,
        *,
        model: str = "",
        base_url: str = "",
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        batch_size: int = BATCH_SIZE,
    ) -> None:
        self.name, self._shape, self._model = shape.name, shape, model or shape.model
        if not (base_url or shape.base_url):
            raise Invalid(f"{shape.name}: the URL is missing: pass {shape.name}:http://host:port")
        self._batch_size = validate_int(f"{shape.name}: batch_size", batch_size, 1)
        try:
            self._transport = OpenAITransport(
                base_url or shape.base_url,
                PATH,
                self._model,
                api_key=api_key,
                timeout_s=timeout_s,
                max_retries=0,
                code=CODE,
            )
        except Invalid as error:
            raise Invalid(str(error).replace("openai:", f"{shape.name}:", 1), error.code) from None
        self.fingerprint = f"{shape.name}:{self._transport.server}:{self._model}"

    def __repr__(self) -> str:
        return f"ServerReranker({self.name}, {self._transport.description})"

    def close(self) -> None:
        self._transport.close()

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        scores: list[float] = []
        sent = [_sanitise(text) for text in texts]
        for start in range(0, len(sent), self._batch_size):
            scores += self._rerank_batch(_sanitise(query), sent[start : start + self._batch_size])
        return scores

    def _rerank_batch(self, query: str, texts: Sequence[str]) -> list[float]:
        body = self._shape.body(self._model, query, texts)
        response = self._transport.post(body, [query, *texts], retry=False)
        scores = self._parse(response)
        if scores.keys() != set(range(len(texts))):
            raise self._transport.error(
                f"expected one score for each of {len(texts)} texts, got {len(scores)}"
            )
        return [scores[index] for index in range(len(texts))]

    def _parse(self, response: httpx.Response) -> dict[int, float]:
        """Return the scores by the index of the text: servers answer best first."""
        try:
            rows = [(row["index"], row[self._shape.score]) for row in self._read_rows(response)]
        except (KeyError, TypeError) as error:
            fields = f"index or {self._shape.score}"
            raise self._transport.error(f"the answer lacks results, {fields}") from error
        if len(dict(rows)) != len(rows):
            raise self._transport.error("the answer scores a text twice")
        for _, score in rows:
            is_number = isinstance(score, int | float) and not isinstance(score, bool)
            if not is_number or not math.isfinite(score):
                raise self._transport.error("a score is not a finite number")
        # Some models score unrelated texts a little below 0.
        return {index: min(1.0, max(0.0, float(score))) for index, score in rows}

    def _read_rows(self, response: httpx.Response) -> Sequence[Mapping[str, Any]]:
        try:
            answer = response.json()
        except (ValueError, RecursionError) as error:
            raise self._transport.error("the answer is not JSON") from error
        rows: Sequence[Mapping[str, Any]] = self._shape.rows(answer)
        return rows


class ServerOpener:
    """Opens the rerankers of one service."""

    shape: ClassVar[Shape]

    @classmethod
    def open(
        cls,
        address: str = "",
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        batch_size: int = BATCH_SIZE,
    ) -> ServerReranker:
        model, base_url = cls.parse_address(address)
        return ServerReranker(
            cls.shape,
            model=model,
            base_url=base_url,
            api_key=api_key,
            timeout_s=timeout_s,
            batch_size=batch_size,
        )

    @classmethod
    def parse_address(cls, address: str) -> tuple[str, str]:
        """Return the model and the URL of an address, "" for the default."""
        return _parse_address(cls.shape, address)


class CohereReranker(ServerOpener):
    """Opens `cohere:MODEL` and `cohere:MODEL@URL`."""

    shape = COHERE


class JinaReranker(ServerOpener):
    """Opens `jina:MODEL` and `jina:MODEL@URL`."""

    shape = JINA


class TeiReranker(ServerOpener):
    """Opens `tei:URL`."""

    shape = TEI

    @classmethod
    def parse_address(cls, address: str) -> tuple[str, str]:
        return "", address


def _parse_address(shape: Shape, address: str) -> tuple[str, str]:
    """Return the model and the URL of an address, "" for the default."""
    parts = ADDRESS.fullmatch(address)
    if not parts:
        model = address.partition("@")[0]
        rule = f"must be such as {shape.name}:{shape.model}@https://host/v1"
        raise Invalid(f"{shape.name}: the address of {model!r} {rule}")
    return parts[1], parts[2] or ""


def _sanitise(text: str) -> str:
    """Return a text that any server accepts: not empty, not too long, valid UTF-8."""
    return text[:MAX_CHARS].encode(errors="replace").decode() or " "
