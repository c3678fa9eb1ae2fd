"""Names made from text: kebab case."""

from __future__ import annotations

import re

MAX_SLUG = 80  # characters


def slug(text: str) -> str:
    """Kebab case: words in lower case with dashes between them."""
    return (
        "-".join(re.findall(r"\w+", text.lower().replace("'", "").replace("_", " ")))[
            :MAX_SLUG
        ].rstrip("-")
        or "section"
    )
