"""Write docs/settings.md from the fields of config.py: python -m tools.settings_page.

A test compares the page with the output of `build_page`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from knowloom import config

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
HEAD = """\
# Settings

<!-- Written by tools/settings_page.py from config.py: edit that file. -->

A setting is read from `knowloom.toml` in the current folder, or from the environment variable
`KNOWLOOM_` and its name in capitals, which takes precedence. `KNOWLOOM_CONFIG` names another file.
An option of a command takes precedence over both. In Python, `knowloom.open` takes arguments and
reads neither.

```toml
store = "knowledge.db"
embedder = "minilm"
max_tokens = 4000

[retrieval]
walk_onward = 0.6
```

A setting that does not exist, or has a value of another type, is an error that names it.

| setting | default | meaning |
|---|---|---|
"""
TAIL = """
Text that is empty by default means "none" or "as described". Tables of `knowloom.toml` itself:
`[retrieval]` has the [settings of retrieval](walk.md#retrieval-settings), `[agents.NAME]` an
[agent](agents.md). The options of `knowloom serve` are in [Command line](cli.md#knowloom-serve).
"""


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    default: object
    meaning: str


def read_settings() -> Iterator[Setting]:
    """Yield the settings in the order of config.py."""
    for field in fields(config.Settings):
        yield Setting(field.name, field.default, field.metadata["meaning"])


def _format_meaning(text: str) -> str:
    """Return a comment as Markdown: quoted values as code, pages as links."""
    text = re.sub(r'"([^"]*)"', lambda match: f"`{match[1]}`" if match[1] else "empty", text)
    text = re.sub(r"\b(?:docs/)?(\w+)\.md\b", r"[\1](\1.md)", text)
    return (text[:1].upper() + text[1:]).replace("|", "\\|")


def _format_default(setting: Setting) -> str:
    if setting.default == "":
        return ""
    return f"`{setting.default}`"


def build_page() -> str:
    rows = "".join(
        f"| `{setting.name}` | {_format_default(setting)} | {_format_meaning(setting.meaning)} |\n"
        for setting in read_settings()
    )
    return HEAD + rows + TAIL


def main() -> None:
    PAGE.write_text(build_page(), "utf-8")


if __name__ == "__main__":
    main()
