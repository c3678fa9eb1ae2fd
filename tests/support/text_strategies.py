"""Hypothesis strategies of hostile texts and items, and a parser of Markdown headings."""

from __future__ import annotations

from hypothesis import strategies as st
from markdown_it import MarkdownIt

from knowloom.model import Item, Kind

PARSER = MarkdownIt("commonmark")

_PIECES = [
    *"#=-`~<>!?*+_.:[]()\"'\\|&%@ \t\n\r\v\f\x00\x7f\x85\xa0\u2028\u2029\ufeffab1",
    "🦊",
    "é",
]
_PIECES += ["\n", "\n\n", "\n  ", "\n    ", "\n> ", "\n- ", "\n1. ", "\n# x", "\r\n", "    "]
_PIECES += ["\n```\n", "\n~~~\n", "\n---\n", "\n===\n", "```", "<!--", "-->", "<pre>", "</pre>"]
_PIECES += ["<script>", "<?", "<!X", "<![CDATA[", "<div>", "<b>", "[a]: /u", "- - - - - - - - -"]
# Plain scalars that YAML would not read back as text.
SCALARS = ["yes", "No", "on", "null", "~", "1e3", "12", "0x1f", "1:30", "2024-01-01", "=", "<<"]
SCALARS += ["-", "?", "a: b", "a #b", ".inf"]

nasty = st.lists(st.sampled_from(_PIECES), max_size=25).map("".join)
any_text = nasty | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
tricky = st.sampled_from(SCALARS)
leaf = (
    any_text
    | tricky
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none()
)
value = st.recursive(
    leaf,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(any_text | tricky, inner, max_size=3)
    ),
    max_leaves=5,
)


def items(text: st.SearchStrategy[str]) -> st.SearchStrategy[Item]:
    return st.builds(
        Item,
        id=text.filter(bool),
        space=st.just("s"),
        kind=st.sampled_from(Kind),
        type=text,
        title=text,
        text=text,
        summary=text,
        properties=st.dictionaries(text, value, max_size=3),
        tags=st.lists(text, max_size=2).map(tuple),
    )


def headings(markdown: str) -> list[tuple[str, int, str]]:
    """Return tag, depth and source text of every heading a parser sees."""
    tokens = PARSER.parse(markdown)
    return [
        (token.tag, token.level, tokens[at + 1].content)
        for at, token in enumerate(tokens)
        if token.type == "heading_open"
    ]
