"""The contract of embedders."""

from __future__ import annotations

import numpy as np
import pytest

from knowloom.ports import Embedder

ODD_TEXTS = {
    "empty": "",
    "whitespace": " \t\n ",
    "very long": "refund policy " * 7_200,  # 100,800 characters
    "emoji": "🧵👩‍👩‍👧 🇮🇱",
    "right-to-left": "مرحبا שלום",
    "NUL": "before\0after",
}


class EmbedderContract:
    """The promises of `ports.Embedder`: override the fixture `embedder`.

    Any text gives a finite float32 unit vector of the announced dimensions. The same text gives the
    same vector, whatever texts are embedded with it and in whatever order. `TEXTS` may be replaced
    if the embedder cannot tell these apart.
    """

    TEXTS = (
        "How do I get a refund?",
        "Parcels leave on Mondays.",
        "The office is closed.",
        "Ask for Anna.",
        "Water boils at 100 °C.",
    )

    @pytest.fixture
    def embedder(self) -> Embedder:
        raise NotImplementedError("override the fixture `embedder`")

    def test_the_same_text_gives_the_same_vector(self, embedder: Embedder) -> None:
        first, second = embedder.embed(["refund"]), embedder.embed(["refund"])
        np.testing.assert_array_equal(first, second)

    def test_different_texts_give_different_vectors(self, embedder: Embedder) -> None:
        vectors = embedder.embed(self.TEXTS)
        assert len({vector.tobytes() for vector in vectors}) == len(self.TEXTS)

    def test_vectors_have_unit_length(self, embedder: Embedder) -> None:
        lengths = [np.linalg.norm(vector) for vector in embedder.embed(self.TEXTS)]
        np.testing.assert_allclose(lengths, 1.0, atol=1e-5)

    def test_vectors_have_the_announced_dimensions(self, embedder: Embedder) -> None:
        announced = embedder.dimensions
        assert [vector.shape for vector in embedder.embed(self.TEXTS)] == [(announced,)] * len(
            self.TEXTS
        )

    def test_vectors_come_in_the_order_of_the_texts_however_they_are_batched(
        self, embedder: Embedder
    ) -> None:
        together = embedder.embed(self.TEXTS)
        separately = [embedder.embed([text])[0] for text in self.TEXTS]
        np.testing.assert_allclose(together, separately, atol=1e-5)

    def test_the_order_of_the_texts_changes_no_vector(self, embedder: Embedder) -> None:
        forwards, backwards = embedder.embed(self.TEXTS), embedder.embed(self.TEXTS[::-1])
        np.testing.assert_allclose(forwards, backwards[::-1], atol=1e-5)

    def test_a_repeated_text_gets_a_vector_each_time(self, embedder: Embedder) -> None:
        first, other, again = embedder.embed(["refund", "shipping", "refund"])
        np.testing.assert_allclose(first, again, atol=1e-5)
        assert not np.allclose(first, other, atol=1e-5)

    def test_no_texts_give_no_vectors(self, embedder: Embedder) -> None:
        assert embedder.embed([]) == []

    @pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS.keys())
    def test_any_text_gives_a_finite_float32_unit_vector(
        self, embedder: Embedder, text: str
    ) -> None:
        (vector,) = embedder.embed([text])
        assert vector.dtype == np.float32 and np.isfinite(vector).all()
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)

    def test_an_odd_text_does_not_affect_other_texts(self, embedder: Embedder) -> None:
        alone = embedder.embed(["refund"])[0]
        among = embedder.embed([*ODD_TEXTS.values(), "refund"])[-1]
        np.testing.assert_allclose(among, alone, atol=1e-5)
