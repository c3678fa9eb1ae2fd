"""Calibration: the cosines of any embedder on the scale of the bundled one.

Many embedders give unrelated texts a cosine of .4 to .9. Their vectors share a large common part,
which is measured as the mean vector of fixed texts and subtracted; unrelated texts then have a
cosine near 0 and related ones about that of MiniLM (docs/decisions/028-embedder-calibration.md).
Stored knowledge has no part in it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from knowloom.caching import cached
from knowloom.embedders.queries import WrappedEmbedder, embed_queries
from knowloom.errors import Conflict
from knowloom.ports import Embedder, Vector

log = logging.getLogger(__name__)

VERSION = 1
TEXTS = Path(__file__).parent / "calibration_texts.txt"
MIN_DISTINCT = 0.5  # of the vectors: an embedder that tells fewer texts apart has no common part
MIN_LENGTH = 1e-4  # of a vector without the common part
MIN_PROBE_COSINE = 0.95  # between two vectors of one text; servers are not exactly repeatable
CHECK_INTERVAL_S = 600.0
# The text that reveals another model, as a query and as a passage.
PROBE_TEXT = "Anna asked whether refunds for parcels that arrive late are paid within 14 days."

Matrix = npt.NDArray[np.float64]


class CalibrationStore(Protocol):
    """The part of a vector index that stores calibrations."""

    def calibration(self, fingerprint: str) -> bytes: ...

    def put_calibration(self, fingerprint: str, data: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class CalibrationTexts:
    """The texts that every embedder is calibrated on, and their digest."""

    queries: tuple[str, ...]
    passages: tuple[str, ...]
    digest: str


@cached("calibration texts", 1)
def calibration_texts() -> CalibrationTexts:
    data = TEXTS.read_bytes()
    lines = [line for line in data.decode().splitlines() if not line.startswith("# ")]
    start = lines.index("## passages")
    queries, passages = (*lines[1:start], PROBE_TEXT), (*lines[start + 1 :], PROBE_TEXT)
    digest = hashlib.sha256(repr((queries, passages)).encode()).hexdigest()[:8]
    return CalibrationTexts(queries, passages, digest)


def calibrated_fingerprint(fingerprint: str) -> str:
    """Return the fingerprint of an embedder, with the version of the calibration and its texts."""
    return f"{fingerprint}+c{VERSION}.{calibration_texts().digest}"


@dataclass(frozen=True, slots=True)
class Calibration:
    """The common part of an embedder's queries and of its passages, and two probe vectors.

    `unrelated` and `spread` are the mean and the standard deviation of the cosines between the
    embedder's own vectors of different texts.
    """

    fingerprint: str  # of the calibrated embedder
    query_mean: Vector
    passage_mean: Vector
    query_probe: Vector
    passage_probe: Vector
    unrelated: float
    spread: float

    def apply_to_query(self, vector: Vector) -> Vector:
        return _subtract(vector, self.query_mean)

    def apply_to_passages(self, vectors: Vector) -> Vector:
        """Return one vector, or each row of a matrix, without the common part."""
        if vectors.ndim == 1:
            return _subtract(vectors, self.passage_mean)
        return np.stack([_subtract(row, self.passage_mean) for row in vectors])

    def encode(self) -> bytes:
        header = {
            "fingerprint": self.fingerprint,
            "unrelated": self.unrelated,
            "spread": self.spread,
        }
        vectors = (self.query_mean, self.passage_mean, self.query_probe, self.passage_probe)
        return b"\n".join((json.dumps(header).encode(), np.stack(vectors).tobytes()))

    @classmethod
    def decode(cls, data: bytes) -> Calibration | None:
        """Return an encoded calibration, None for bytes that are not one."""
        try:
            header, _, body = data.partition(b"\n")
            vectors = np.frombuffer(body, np.float32).reshape(4, -1)
            values = json.loads(header)
            return cls(
                values["fingerprint"],
                unrelated=values["unrelated"],
                spread=values["spread"],
                query_mean=vectors[0],
                passage_mean=vectors[1],
                query_probe=vectors[2],
                passage_probe=vectors[3],
            )
        except (KeyError, TypeError, ValueError):
            return None


def calibrate(
    fingerprint: str, queries: Sequence[Vector], passages: Sequence[Vector]
) -> Calibration:
    """Return the calibration of an embedder from its vectors of the calibration texts.

    The last vector of each role is that of the probe.
    """
    rows = [np.stack(part).astype(np.float64) for part in (queries, passages)]
    unrelated, spread = _range_of_cosines(rows[1])
    means = [part.mean(axis=0) for part in rows]
    distinct = len({row.tobytes() for row in rows[1].round(3)}) / len(passages)
    if distinct < MIN_DISTINCT:
        log.warning(
            "embedder %s tells only %.0f %% of the calibration texts apart: its vectors are "
            "stored as they are",
            fingerprint,
            100 * distinct,
        )
        means = [np.zeros_like(mean) for mean in means]
    log.info("embedder %s: cosines of unrelated texts %.3f ± %.3f", fingerprint, unrelated, spread)
    return Calibration(
        fingerprint,
        means[0].astype(np.float32),
        means[1].astype(np.float32),
        np.array(queries[-1], np.float32),
        np.array(passages[-1], np.float32),
        round(unrelated, 4),
        round(spread, 4),
    )


def _range_of_cosines(vectors: Matrix) -> tuple[float, float]:
    cosines = (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]
    return float(cosines.mean()), float(cosines.std())


def _subtract(vector: Vector, mean: Vector) -> Vector:
    if vector.shape != mean.shape:
        raise Conflict(
            f"the embedder was calibrated with vectors of {len(mean)} dimensions and returns "
            f"{len(vector)} now: run reindex",
            "reindex_required",
        )
    if not mean.any():
        return vector
    rest = vector.astype(np.float64) - mean
    length = float(np.sqrt(rest @ rest))
    if length < MIN_LENGTH:  # the text has nothing but the common part
        return vector
    return (rest / length).astype(np.float32)


class CalibratedEmbedder(WrappedEmbedder):
    """An embedder whose vectors are calibrated.

    The calibration is computed when the first text is embedded, and stored with the vectors, so
    that a remote embedder is not asked again by each process.
    """

    def __init__(self, embedder: Embedder, index: CalibrationStore) -> None:
        super().__init__(embedder)
        self._index = index
        self._data = b""
        self._calibration: Calibration | None = None

    @property
    def fingerprint(self) -> str:
        return calibrated_fingerprint(self._embedder.fingerprint)

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        calibration = self.calibration()
        return [calibration.apply_to_passages(row) for row in self._embedder.embed(texts)]

    def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        calibration = self.calibration()
        return [calibration.apply_to_query(row) for row in embed_queries(self._embedder, texts)]

    def calibration(self) -> Calibration:
        """Return the stored calibration; compute and store it if there is none.

        The store is asked each time: another process may have embedded everything again.
        """
        fingerprint = self.fingerprint
        data = self._index.calibration(fingerprint)
        if self._calibration is None or data != self._data:
            self._calibration = Calibration.decode(data) or self._calibrate(fingerprint)
            self._data = data
        return self._calibration

    def _calibrate(self, fingerprint: str) -> Calibration:
        texts = calibration_texts()
        if self.has_roles:
            queries = embed_queries(self._embedder, texts.queries)
            passages = self._embedder.embed(texts.passages)
            calibration = calibrate(fingerprint, queries, passages)
        else:
            # One mean for both: a query that equals a passage has the vector of the passage.
            vectors = self._embedder.embed((*texts.queries, *texts.passages))
            calibration = calibrate(fingerprint, vectors, vectors)
        self._index.put_calibration(fingerprint, calibration.encode())
        return Calibration.decode(self._index.calibration(fingerprint)) or calibration


class ModelCheck(WrappedEmbedder):
    """An embedder that notices when another model answers under the same name.

    Now and then a text of the calibration is embedded with the others, in the same call, and its
    vector compared with the one of the calibration.
    """

    def __init__(
        self,
        embedder: Embedder,
        index: CalibrationStore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(embedder)
        self._index, self._clock = index, clock
        self._due = {"query": 0.0, "passage": 0.0}

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return self._embed("passage", self._embedder.embed, texts)

    def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return self._embed("query", partial(embed_queries, self._embedder), texts)

    def reset(self) -> None:
        """Check the model in the next call."""
        self._due = dict.fromkeys(self._due, 0.0)

    def _embed(
        self, role: str, embed: Callable[[Sequence[str]], list[Vector]], texts: Sequence[str]
    ) -> list[Vector]:
        expected = self._expected_probe(role) if self._clock() >= self._due[role] else None
        if expected is None:
            return embed(texts)
        probe, *vectors = embed([PROBE_TEXT, *texts])
        self._compare(np.asarray(probe, np.float32), expected)
        self._due[role] = self._clock() + CHECK_INTERVAL_S
        return vectors

    def _expected_probe(self, role: str) -> Vector | None:
        data = self._index.calibration(calibrated_fingerprint(self.fingerprint))
        calibration = Calibration.decode(data)
        if calibration is None:
            return None
        return calibration.query_probe if role == "query" else calibration.passage_probe

    def _compare(self, probe: Vector, expected: Vector) -> None:
        cosine = 0.0
        if probe.shape == expected.shape:
            cosine = float(probe @ expected) / (float(np.linalg.norm(probe)) or 1.0)
        if not cosine >= MIN_PROBE_COSINE:  # NaN too
            raise Conflict(
                f"the model behind {self.fingerprint!r} is another one now: the same text has a "
                f"cosine of {cosine:.2f} to its earlier vector: run reindex",
                "model_changed",
            )
