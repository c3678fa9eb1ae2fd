"""How an assembled text looks: as a context, but that a piece of text without a title needs no heading in Markdown."""

from __future__ import annotations

from dataclasses import replace

from weft.capabilities.assembler.values import TEXT
from weft.model import Form, Hit
from weft.stages.escape import body_text
from weft.stages.render import Layout, layout


def assembled_layout(name: str) -> Layout:
    usual = layout(name)
    if name != "markdown":
        return usual

    def block(hit: Hit, form: Form) -> str:
        bare = hit.item.type == TEXT and not hit.item.title and form is Form.WHOLE
        return f"{body_text(hit.item.text.strip())}\n\n" if bare else usual.block(hit, form)

    return replace(usual, name="assembled markdown", block=block)
