"""Values to JSON objects and back: one module per family, both directions in each."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
