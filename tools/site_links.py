"""Prepare pages for the site: links to files of the repository outside of docs/ become names.

A hook of mkdocs. The pages are also read in the repository, where these links lead to the files.
"""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\[\]]+)\]\(((?:\.\./)+[^()\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    depth = page.file.src_uri.count("/")

    def replace(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        leaves = target.count("../") > depth
        return text if leaves else match[0]

    return _OUTSIDE.sub(replace, markdown)
