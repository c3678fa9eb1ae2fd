"""Objects of the shape {embed, embed_batch, dimensions, model} as embedders."""

from __future__ import annotations

from typing import Any

import pytest
from engine_samples import AxisEmbedder, node

import knowloom
from knowloom.errors import Invalid


class Simple:
    """An embedder as many applications have one."""

    model, dimensions = "axes-small", 5

    def __init__(self) -> None:
        self.calls: list[object] = []

    def embed(self, text: str) -> list[float]:
        self.calls.append(text)
        return [5 * number for number in self._vectors([text])[0]]  # of any length

    def embed_batch(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(texts)
        return self._vectors(texts)

    @staticmethod
    def _vectors(texts: list[str]) -> list[list[float]]:
        return [vector.tolist() for vector in AxisEmbedder().embed(texts)]


class WithMethods(Simple):
    """The same with methods instead of attributes, and with queries of their own."""

    def model(self) -> str:  # type: ignore[override]
        return "axes-small"

    def dimensions(self) -> int:  # type: ignore[override]
        return 5

    def embed_query(self, text: str) -> list[float]:
        self.calls.append(("query", text))
        return self._vectors([text])[0]


@pytest.mark.parametrize("shape", [Simple, WithMethods])
def test_objects_of_the_simple_shape_are_embedders(store_url: str, shape: type) -> None:
    simple: Any = shape()
    with knowloom.open(store_url, embedder=simple) as kb:
        assert kb.reader.dimensions == 5
        kb.add([node("a", "refund"), node("b", "car")])
        hits = kb.search("refund money", spaces=["s"], mode="vector")
        assert hits[0].item.id == "a" and hits[0].score <= 1
        assert f":{shape.__name__}:axes-small" in kb.maintenance.stats().embedder
    assert any(isinstance(call, list) for call in simple.calls)
    assert (("query", "refund money") in simple.calls) == (shape is WithMethods)


def test_an_object_that_lacks_a_part_of_the_shape_is_refused() -> None:
    class Half:
        model, dimensions = "half", 2

        def embed(self, text: str) -> list[float]:
            return [1.0, 0.0]

    with pytest.raises(Invalid, match="without 'name'"):
        knowloom.open("memory:", embedder=Half())  # type: ignore[arg-type]


def test_a_model_without_a_name_is_refused() -> None:
    class Nameless(Simple):
        model = " "

    with pytest.raises(Invalid, match="the model of an embedder must be a name, got ' '"):
        knowloom.open("memory:", embedder=Nameless())  # type: ignore[arg-type]


def test_vectors_of_any_length_are_stored_as_unit_vectors(store_url: str) -> None:
    class Long(AxisEmbedder):
        def embed(self, texts: Any) -> Any:
            return [7 * vector for vector in super().embed(texts)]

    with knowloom.open(store_url, embedder=Long()) as kb:
        kb.add([node("a", "refund"), node("b", "car")])
        hits = kb.search("refund", spaces=["s"], mode="vector")
        assert [round(hit.score, 2) for hit in hits] == [1.0, 0.01]
