"""Fast construction of frozen values and fast rounding, for the hot paths of a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, make_dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")

SCORE_DIGITS = 6  # scores that differ by less are a tie, on every machine


def round_scores(values: Sequence[float] | npt.NDArray[np.float64]) -> list[float]:
    """Round to SCORE_DIGITS, in a sixth of the time of `round`."""
    # The method: `np.round` takes twice as long for few values.
    scores: list[float] = np.asarray(values).round(SCORE_DIGITS).tolist()
    return scores


def open_twin(cls: type[T]) -> tuple[Callable[..., Any], Callable[[list[Any]], list[T]]]:
    """Return a mutable twin of a frozen dataclass with slots, and a function that freezes twins.

    A frozen dataclass sets each field by a call. A mutable one with the same slots is constructed
    in a third of the time and can be given the frozen class afterwards. The twin takes every field,
    in order; the function freezes the twins of a list in place.
    """
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    twin: Any = make_dataclass(f"Open{cls.__name__}", names, slots=True)

    def freeze(twins: list[Any]) -> list[T]:
        for value in twins:
            if value.__class__ is twin:
                value.__class__ = cls
        return twins

    return twin, freeze


def fast_constructor(cls: type[T]) -> Callable[..., T]:
    """Return a fast constructor of a frozen dataclass with slots; it takes all fields in order."""
    twin, _ = open_twin(cls)

    def construct(*values: Any) -> T:
        value = twin(*values)
        value.__class__ = cls
        return value  # type: ignore[no-any-return]

    return construct
