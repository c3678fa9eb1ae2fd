"""Make frozen values, and round numbers, fast, where a request does it hundreds of times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, make_dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")

DIGITS = 6  # of a score: what differs by less is a tie, on every machine


def round_scores(values: Sequence[float] | npt.NDArray[np.float64]) -> list[float]:
    """The numbers with six digits; `round` takes six times as long for each."""
    found: list[float] = (
        np.asarray(values).round(DIGITS).tolist()
    )  # by the method: `np.round` takes twice as long for few
    return found


def open_twin(cls: type[T]) -> tuple[Callable[..., Any], Callable[[list[Any]], list[T]]]:
    """An open twin of a frozen dataclass with slots, and what turns the twins in a list into values of the class, in place. A twin wants
    every field, in order. A frozen class sets each field by a call; an open one that has the same slots can be given the class afterwards."""
    twin: Any = make_dataclass(f"Open{cls.__name__}", [one.name for one in fields(cls)], slots=True)  # type: ignore[arg-type]

    def made(twins: list[Any]) -> list[T]:
        for value in twins:
            if value.__class__ is twin:
                value.__class__ = cls
        return twins

    return twin, made


def fast_constructor(cls: type[T]) -> Callable[..., T]:
    """A constructor of a frozen dataclass with slots that wants every field, in order, and takes a third of the time (see `opened`)."""
    twin, _ = open_twin(cls)

    def make(*values: Any) -> T:
        value = twin(*values)
        value.__class__ = cls
        return value  # type: ignore[no-any-return]

    return make
