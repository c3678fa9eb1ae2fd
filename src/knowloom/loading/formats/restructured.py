"""reStructuredText through docutils' reader: sections, links, code blocks, tables and notes.

Directives and roles of Sphinx and other extensions are read too: the contents of a directive as
text, code or a note, a role as its text and, if it refers to a document or label, as a link.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives, roles
from docutils.utils import Reporter

from knowloom.loading.decoding import decode_text, unify_line_breaks
from knowloom.loading.formats.plain import longest_run
from knowloom.loading.formats.tables import format_table
from knowloom.loading.parsed_documents import DocumentBuilder, ParsedDocument

MAX_LINE = 100_000  # characters
MAX_LEVEL = 6
MAX_SHOWN_TARGET = 120  # characters of an address that is shown beside its text
_SETTINGS = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "halt_level": Reporter.SEVERE_LEVEL + 1,
    "report_level": Reporter.SEVERE_LEVEL + 1,
    "doctitle_xform": False,
    "sectsubtitle_xform": False,
    "docinfo_xform": False,
    "smart_quotes": False,
    "syntax_highlight": "none",
    "line_length_limit": MAX_LINE,
    "_disable_config": True,
    "warning_stream": "",
}
_DIRECTIVE = re.compile(r"^[ \t]*\.\.[ \t]+(?:\|[^|\n]+\|[ \t]+)?([\w.:+-]+?)::", re.M)
_ROLE = re.compile(r":([a-zA-Z][\w.:+-]*):`|`:([a-zA-Z][\w.:+-]*):")
_TITLED = re.compile(r"(.*?)\s*<([^<>]+)>\s*$", re.S)
_CODE = frozenset("code code-block sourcecode literalinclude prompt testcode doctest".split()) | {
    "parsed-literal",
    "testoutput",
    "productionlist",
    "math",
}
_IGNORED = frozenset(
    "toctree contents index highlight meta currentmodule default-role only cssclass rst-class "
    "py:currentmodule py:module image figure raw include tabularcolumns sectnum title".split()
)
_NOTES = frozenset(
    "note warning tip hint important caution danger attention error seealso admonition todo "
    "versionadded versionchanged deprecated versionremoved".split()
)
_LINK_ROLES = {"ref": "ref", "doc": "doc", "any": "ref", "numref": "ref"}


class container_block(nodes.General, nodes.Element):
    """A directive that docutils does not have: its name, arguments and contents."""


class _AnyOption(dict[str, Any]):
    """Options of any name, read as text."""

    def __missing__(self, name: str) -> Any:
        return directives.unchanged

    def __bool__(self) -> bool:
        return True


class AnyDirective(Directive):
    """Reads any directive with arguments, options and contents."""

    optional_arguments = 100
    final_argument_whitespace = True
    has_content = True
    option_spec = _AnyOption()

    def run(self) -> list[nodes.Node]:
        name = self.name.lower()
        if name in _IGNORED:
            return []
        argument = " ".join(self.arguments)
        if name in _CODE:
            text = "\n".join(self.content) or ("" if name == "literalinclude" else argument)
            if not text.strip():
                return []
            language = argument if name in ("code-block", "sourcecode", "code") else ""
            block = nodes.literal_block(text, text, language=language)
            block.line = self.content_offset + 1
            return [block]
        block = container_block(name=name, argument=argument)
        block.line = self.lineno
        self.state.nested_parse(self.content, self.content_offset, block)
        return [block]


def _read_role(
    name: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Any,
    options: Any = None,
    content: Any = (),
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Return the text of a role; one that refers to a document or label is a link."""
    titled = _TITLED.match(nodes.unescape(text))
    label, target = (titled[1], titled[2]) if titled else (nodes.unescape(text),) * 2
    kind = _LINK_ROLES.get(name.rpartition(":")[2])
    if kind is not None:
        target = target.lstrip("!~")
        link = nodes.reference(rawtext, label, refuri=f"{kind}:{target}")
        link["bare"] = titled is None
        return [link], []
    if name in ("issue", "pr", "user", "commit"):
        return [nodes.inline(rawtext, f"{name} {label}")], []
    label = label.rpartition(".")[2] if label.startswith("~") else label.lstrip("!")
    return [nodes.literal(rawtext, label)], []


def parse(raw: bytes, name: str) -> ParsedDocument:
    """Return the document as Markdown, with the lines of the file."""
    text = unify_line_breaks(decode_text(raw))
    for directive in sorted(set(_DIRECTIVE.findall(text))):
        if directive.lower() not in _STANDARD_DIRECTIVES:
            directives.register_directive(directive, AnyDirective)
    for match in sorted(set(_ROLE.findall(text))):
        role = match[0] or match[1]
        if role.lower() not in _STANDARD_ROLES:
            roles.register_local_role(role, _read_role)
    tree = publish_doctree(text, settings_overrides=_SETTINGS)
    writer = _Writer(text.split("\n"))
    writer.write(tree.children, 1)
    writer.write_label()
    return writer.builder.build()


class _Writer:
    """Writes the nodes of a document as blocks of Markdown, with their lines in the file."""

    def __init__(self, source: Sequence[str]) -> None:
        self.builder = DocumentBuilder()
        self.source = [line.strip() for line in source]
        self.line = 0  # the last one that was located, from 0
        self.links: list[str] = []
        self.label: container_block | None = None  # that may belong to the heading below

    def write(self, children: Sequence[nodes.Node], level: int) -> None:
        for node in children:
            if isinstance(node, nodes.section):
                self._write_section(node, level)
            elif isinstance(node, nodes.target):
                self.builder.anchors.extend((*node["names"], *node["ids"]))
            elif isinstance(node, nodes.compound | nodes.container):
                self.write(node.children, level)
            else:
                self._write_block(node)

    def _write_section(self, section: nodes.section, level: int) -> None:
        title, *children = section.children
        anchors = (*section["names"], *section["ids"])
        place = self._locate(title.rawsource or title.astext())
        heading = " ".join(title.astext().split())
        self.write_label(heading)
        self.builder.add_heading(min(level, MAX_LEVEL), heading, place, anchors)
        self.write(children, level + 1)

    def write_label(self, heading: str = "") -> None:
        """Write a directive that is a mere name, unless it names the heading below it."""
        label, self.label = self.label, None
        if label is not None and label["argument"] not in heading:
            self._write_rendered(label)

    def _write_block(self, node: nodes.Node) -> None:
        self.write_label()
        if isinstance(node, container_block) and not node.children and node["argument"]:
            self.label = node
        else:
            self._write_rendered(node)

    def _write_rendered(self, node: nodes.Node) -> None:
        self.links = []
        lines = self._render(node)
        if any(lines):
            place = self._locate(_raw_start(node))
            start = self.builder.add_block("\n".join(lines), place, self.links)
            if place is not None and isinstance(node, nodes.FixedTextElement | nodes.paragraph):
                self._add_lines(start, place, len(lines), _raw_start(node).count("\n"))

    def _add_lines(self, start: int, place: int, count: int, breaks: int) -> None:
        """Note the lines of a block that has as many as its source, beside those of a fence."""
        fence = int(count == breaks + 3)
        if count in (breaks + 1, breaks + 3):
            for offset in range(1, breaks + 1):
                self.builder.add_place(start + fence + offset, place + offset)

    def _locate(self, raw: str) -> int | None:
        """Return the line of the file, from 1, where a block begins, searched from the last one."""
        first = next((line.strip() for line in raw.split("\n") if line.strip()), "")
        if not first:
            return None
        for number in range(self.line, min(len(self.source), self.line + 2_000)):
            if first in self.source[number]:
                self.line = number
                return number + 1
        return None

    def _render(self, node: nodes.Node) -> list[str]:
        """Return the lines of a block."""
        for kind, render in _RENDERERS:
            if isinstance(node, kind):
                return render(self, node)
        if isinstance(node, nodes.Element) and not isinstance(node, nodes.TextElement):
            return self.join(node.children)
        text = self.text(node)
        return text.split("\n") if text.strip() else []

    def join(self, children: Sequence[nodes.Node]) -> list[str]:
        """Return blocks with an empty line between them."""
        lines: list[str] = []
        for child in children:
            block = self._render(child)
            if any(block):
                lines += ["", *block] if lines else block
        return lines

    def text(self, node: nodes.Node) -> str:
        """Return the inline text of a node as Markdown, and note its links."""
        if isinstance(node, nodes.Text):
            return node.astext().replace("\x00", "")
        if isinstance(node, nodes.system_message | nodes.comment | nodes.substitution_definition):
            return ""
        if isinstance(node, nodes.literal):
            return f"`{node.astext()}`"
        inner = "".join(self.text(child) for child in node.children)
        if isinstance(node, nodes.reference):
            return self._reference(node, inner)
        mark = next((mark for kind, mark in _MARKS if isinstance(node, kind)), "")
        if isinstance(node, nodes.image):
            return str(node.get("alt", ""))
        return f"{mark}{inner}{mark}" if mark and inner.strip() else inner

    def _reference(self, node: nodes.reference, label: str) -> str:
        target = node.get("refuri", "") or f"#{node.get('refid', node.get('refname', ''))}"
        self.links.append(target)
        is_web = target.startswith(("http://", "https://"))
        if is_web and label != target and len(target) <= MAX_SHOWN_TARGET:
            return f"[{label}]({target})"
        return label


def _raw_start(node: nodes.Node) -> str:
    """Return the first line of the source of a node, "" if it has none."""
    for part in node.findall():
        raw = part.rawsource if isinstance(part, nodes.Element) else part.astext()
        if raw and raw.strip():
            return str(raw)
    return ""


def _render_code(writer: _Writer, node: nodes.Element) -> list[str]:
    text = node.astext().rstrip()
    language = str(node.get("language", ""))
    if not language:
        classes = [name for name in node.get("classes", ()) if name != "code"]
        language = classes[0] if classes else ""
    ticks = "`" * max(3, 1 + longest_run(text, "`"))
    return [f"{ticks}{language}", *text.split("\n"), ticks]


def _render_list(writer: _Writer, node: nodes.Element) -> list[str]:
    lines: list[str] = []
    start = int(node.get("start", 1))
    for number, item in enumerate(node.children, start):
        mark = f"{number}. " if isinstance(node, nodes.enumerated_list) else "- "
        block = writer.join(item.children)
        lines += _indent(block, mark, " " * len(mark))
    return lines


def _indent(block: Sequence[str], first: str, rest: str) -> list[str]:
    return [f"{first if number == 0 else rest}{line}".rstrip() for number, line in enumerate(block)]


def _render_definitions(writer: _Writer, node: nodes.Element) -> list[str]:
    lines: list[str] = []
    for item in node.children:
        terms = [writer.text(child) for child in item.children[:-1]]
        body = writer.join(item.children[-1].children)
        name = " : ".join(term for term in terms if term)
        lines += [*([""] if lines else []), f"**{name}**", *(["", *body] if body else [])]
    return lines


def _render_fields(writer: _Writer, node: nodes.Element) -> list[str]:
    lines: list[str] = []
    for item in node.children:
        name, body = writer.text(item.children[0]), writer.join(item.children[-1].children)
        lines += _indent(body or [""], f"- {name}: ", "  ")
    return lines


def _render_table(writer: _Writer, node: nodes.Element) -> list[str]:
    rows = [
        [
            writer.text(entry) if _is_inline(entry) else "\n".join(writer.join(entry.children))
            for entry in row.children
        ]
        for row in node.findall(nodes.row)
    ]
    title = next((writer.text(child) for child in node.findall(nodes.title)), "")
    table = format_table(rows, header=any(node.findall(nodes.thead))).split("\n")
    return [*([f"**{title}**", ""] if title else []), *table]


def _is_inline(node: nodes.Element) -> bool:
    return all(isinstance(child, nodes.Text | nodes.Inline) for child in node.children)


def _render_note(writer: _Writer, node: nodes.Element) -> list[str]:
    title = next((writer.text(child) for child in node.findall(nodes.title)), "")
    name = title or node.__class__.__name__.replace("_", " ").capitalize()
    children = [child for child in node.children if not isinstance(child, nodes.title)]
    block = [f"**{name}:**", "", *writer.join(children)]
    return _indent(block, "> ", "> ")


def _render_directive(writer: _Writer, node: nodes.Element) -> list[str]:
    name, argument = node["name"], node["argument"]
    body = writer.join(node.children)
    if name in _NOTES:
        label = f"{name.removeprefix('version').capitalize()} {argument}".strip()
        return _indent([f"**{label}:**", *(["", *body] if body else [])], "> ", "> ")
    if ":" in name or name in ("function", "class", "method", "attribute", "data", "option"):
        return [f"**`{argument}`**", *(["", *body] if body else [])] if argument else body
    head = [f"**{argument}**", ""] if argument and body else [argument] if argument else []
    return [*head, *body]


def _render_quote(writer: _Writer, node: nodes.Element) -> list[str]:
    return _indent(writer.join(node.children), "> ", "> ")


def _render_nothing(writer: _Writer, node: nodes.Element) -> list[str]:
    return []


def _render_bold(writer: _Writer, node: nodes.Element) -> list[str]:
    return [f"**{writer.text(node)}**"]


def _render_options(writer: _Writer, node: nodes.Element) -> list[str]:
    lines: list[str] = []
    for item in node.children:
        names, body = item.children[0].astext(), writer.join(item.children[-1].children)
        lines += _indent(body or [""], f"- `{names}`: ", "  ")
    return lines


_MARKS = ((nodes.strong, "**"), (nodes.emphasis, "*"), (nodes.title_reference, "*"))
_RENDERERS: tuple[tuple[Any, Any], ...] = (
    (nodes.literal_block | nodes.doctest_block | nodes.math_block, _render_code),
    (nodes.bullet_list | nodes.enumerated_list, _render_list),
    (nodes.definition_list, _render_definitions),
    (nodes.field_list | nodes.docinfo, _render_fields),
    (nodes.option_list, _render_options),
    (nodes.table, _render_table),
    (container_block, _render_directive),
    (nodes.Admonition, _render_note),
    (nodes.block_quote, _render_quote),
    (nodes.rubric, _render_bold),
    (
        nodes.comment
        | nodes.system_message
        | nodes.substitution_definition
        | nodes.transition
        | nodes.pending
        | nodes.target
        | nodes.image
        | nodes.raw,
        _render_nothing,
    ),
)
_STANDARD_ROLES = frozenset(
    "emphasis strong literal code math subscript superscript title-reference "
    "sub sup title t i b".split()
)
_STANDARD_DIRECTIVES = frozenset(
    "table list-table csv-table epigraph highlights pull-quote compound container rubric topic "
    "sidebar line-block replace unicode date class role parsed-literal math note warning tip hint "
    "important caution danger attention error admonition code".split()
)
