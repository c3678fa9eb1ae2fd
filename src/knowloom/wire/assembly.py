"""An assembled text as plain dicts."""

from __future__ import annotations

from dataclasses import asdict

from knowloom.capabilities.assembler.model import Assembly
from knowloom.wire import encoding


def row(found: Assembly) -> encoding.Row:
    return {
        "text": found.text,
        "tokens": found.tokens,
        "strategies": [asdict(one) | {"reasons": list(one.reasons)} for one in found.strategies],
        "left_out": [
            {
                "strategy": one.fragment,
                "id": one.hit.item.id,
                "tokens": one.tokens,
                "reason": one.reason,
            }
            for one in found.left_out
        ],
        "degraded": [encoding.problem(one) for one in found.degraded],
        "token_counter": found.token_counter,
        "optimality_gap": found.optimality_gap,
    }


def made_of(found: Assembly) -> encoding.Row:
    """What the text is made of, for programs; its items apart, as the rest only names them."""
    items = {hit.item.key: hit.item for fragment in found.fragments for hit in fragment.hits}
    return {
        "fragments": [encoding.fragment(one) for one in found.fragments],
        "items": [encoding.item(items[key]) for key in sorted(items)],
    }
