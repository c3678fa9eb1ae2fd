"""Make frozen values fast, where a request makes hundreds of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, make_dataclass
from typing import Any, TypeVar

T = TypeVar("T")


def maker(cls: type[T]) -> Callable[..., T]:
    """A constructor of a frozen dataclass with slots that wants every field, in order. A frozen class sets each field by a call; this one
    fills in an open twin that has the same slots, then gives it the class: a third of the time."""
    twin: Any = make_dataclass(f"Open{cls.__name__}", [one.name for one in fields(cls)], slots=True)  # type: ignore[arg-type]

    def make(*values: Any) -> T:
        value = twin(*values)
        value.__class__ = cls
        return value  # type: ignore[no-any-return]

    return make
