"""Source code through tree-sitter: functions and classes with their comments, and imports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module

from tree_sitter import Language, Node, Parser

from knowloom.caching import cached
from knowloom.loading.decoding import decode_text, unify_line_breaks
from knowloom.loading.formats.code_imports import find_imports, module_names
from knowloom.loading.formats.plain import longest_run
from knowloom.loading.parsed_documents import DocumentBuilder, DocumentLink, ParsedDocument

CODE_ITEM_SIZE = 4_000  # characters of a class or file that stays whole
MAX_DEPTH = 3  # of definitions inside of others
IMPORTS = "imports"  # the type of the edges of imports


@dataclass(frozen=True, slots=True)
class CodeLanguage:
    """A grammar, and its nodes that define something, with the word shown before the name."""

    grammar: str  # module:function
    fence: str
    definitions: dict[str, str]
    wrappers: frozenset[str] = frozenset()  # nodes around a definition, such as decorators
    bodies: frozenset[str] = frozenset()  # nodes whose children may be definitions


_C = {
    "function_definition": "",
    "struct_specifier": "struct",
    "enum_specifier": "enum",
    "union_specifier": "union",
    "type_definition": "typedef",
}
_SCRIPT = {
    "class_declaration": "class",
    "abstract_class_declaration": "class",
    "function_declaration": "function",
    "generator_function_declaration": "function",
    "method_definition": "",
    "interface_declaration": "interface",
    "type_alias_declaration": "type",
    "enum_declaration": "enum",
    "internal_module": "namespace",
    "variable_declarator": "const",
}
_SCRIPT_WRAPPERS = frozenset(("export_statement", "lexical_declaration", "variable_declaration"))
_SCRIPT_BODIES = frozenset(("class_body", "statement_block"))
_JAVA = {
    "class_declaration": "class",
    "interface_declaration": "interface",
    "enum_declaration": "enum",
    "record_declaration": "record",
    "annotation_type_declaration": "@interface",
    "method_declaration": "",
    "constructor_declaration": "",
}
_RUST = {
    "function_item": "fn",
    "struct_item": "struct",
    "enum_item": "enum",
    "union_item": "union",
    "trait_item": "trait",
    "impl_item": "impl",
    "mod_item": "mod",
    "macro_definition": "macro",
    "type_item": "type",
}
_GO = {"function_declaration": "func", "method_declaration": "func", "type_declaration": "type"}
_PYTHON = {"class_definition": "class", "function_definition": "def"}
LANGUAGES = {
    "py": CodeLanguage(
        *("tree_sitter_python:language", "python", _PYTHON),
        frozenset(("decorated_definition",)),
        frozenset(("block",)),
    ),
    "js": CodeLanguage(
        *("tree_sitter_javascript:language", "javascript", _SCRIPT),
        *(_SCRIPT_WRAPPERS, _SCRIPT_BODIES),
    ),
    "ts": CodeLanguage(
        *("tree_sitter_typescript:language_typescript", "typescript", _SCRIPT),
        *(_SCRIPT_WRAPPERS, _SCRIPT_BODIES),
    ),
    "tsx": CodeLanguage(
        *("tree_sitter_typescript:language_tsx", "tsx", _SCRIPT),
        *(_SCRIPT_WRAPPERS, _SCRIPT_BODIES),
    ),
    "go": CodeLanguage("tree_sitter_go:language", "go", _GO),
    "rs": CodeLanguage(
        *("tree_sitter_rust:language", "rust", _RUST), bodies=frozenset(("declaration_list",))
    ),
    "java": CodeLanguage(
        *("tree_sitter_java:language", "java", _JAVA),
        bodies=frozenset(("class_body", "interface_body", "enum_body", "enum_body_declarations")),
    ),
    "c": CodeLanguage("tree_sitter_c:language", "c", _C),
    "cpp": CodeLanguage(
        *("tree_sitter_cpp:language", "cpp"),
        _C | {"class_specifier": "class", "namespace_definition": "namespace"},
        frozenset(("template_declaration", "linkage_specification")),
        frozenset(("declaration_list", "field_declaration_list")),
    ),
}
_SUFFIXES = {
    **dict.fromkeys(("pyi", "pyw"), "py"),
    **dict.fromkeys(("mjs", "cjs", "jsx"), "js"),
    **dict.fromkeys(("mts", "cts"), "ts"),
    **dict.fromkeys(("cc", "cxx", "hpp", "hh", "hxx", "h"), "cpp"),
}
_TRANSPARENT = frozenset(
    ("ERROR", "linkage_specification", "enum_body_declarations", "declaration_list")
)
_COMMON_NAMES = frozenset(("__init__", "__main__", "index", "main", "mod", "lib"))
_IMPORT_NODES = frozenset(
    "import_statement import_from_statement future_import_statement import_declaration "
    "package_declaration package_clause use_declaration preproc_include ;".split()
)

_LICENCE = re.compile(rb"(?i)copyright|licensed under|SPDX-License-Identifier|all rights reserved")


@dataclass(slots=True)
class _Definition:
    """A function or class, its lines with the comments above it, and those inside of it."""

    title: str
    start: int
    end: int
    children: list[_Definition] = field(default_factory=list)


def parse(raw: bytes, name: str) -> ParsedDocument:
    """Return the definitions of a file as sections with a code block each.

    Code that does not parse is read as far as it does; the rest is in the section before it.
    """
    text = unify_line_breaks(decode_text(raw))
    suffix = name.rpartition(".")[2].lower()
    key = _SUFFIXES.get(suffix, suffix)
    language = LANGUAGES[key]
    if not text.strip():
        return ParsedDocument("")
    tree = _parser(language.grammar).parse(text.encode())
    lines = text.rstrip("\n").split("\n")
    definitions = _find_definitions(tree.root_node, language, len(lines), 0)
    builder = DocumentBuilder()
    start = _skip_licence(tree.root_node)
    if (
        definitions
        and len(text) > CODE_ITEM_SIZE
        and _is_import_list(tree.root_node, start, definitions)
    ):
        start = definitions[0].start
    if definitions and definitions[0].start < start:  # the notice is right above it
        definitions[0].start = start
    _write(builder, lines, language.fence, (start, len(lines)), definitions, 1)
    document = builder.build(_file_title(name), names=module_names(name, text))
    links = tuple(
        DocumentLink(_text_line(document, line), target, IMPORTS)
        for line, target in find_imports(text, name, key)
    )
    return replace(document, links=links, item_size=CODE_ITEM_SIZE)


def _file_title(name: str) -> str:
    """Return the name of a file, with its folder if many files have that name."""
    folder, _, file = name.rpartition("/")
    if file.partition(".")[0] in _COMMON_NAMES and folder:
        return f"{folder.rpartition('/')[2]}/{file}"
    return file


def _skip_licence(root: Node) -> int:
    """Return the first line after the comments at the top of a file if they are a licence notice.

    It is the same in all files of a project, and answers no question about any of them. The notice
    is one block comment, or line comments without a blank line between them.
    """
    end, notice = 0, b""
    for node in root.children:
        text = node.text or b""
        is_next = node.start_point.row <= end and not text.startswith(b"/*")
        if "comment" not in node.type or (notice and not is_next):
            break
        end, notice = _last_row(node) + 1, notice + text
    return end if _LICENCE.search(notice) else 0


def _is_import_list(root: Node, start: int, definitions: Sequence[_Definition]) -> bool:
    """Return True if a file has only imports before its first definition: links have them too."""
    rows = range(start, definitions[0].start)
    return all(
        node.type in _IMPORT_NODES
        or (node.type == "if_statement" and b"TYPE_CHECKING" in (node.text or b""))
        for node in root.children
        if node.start_point.row in rows
    )


@cached("code_parsers", 16)
def _parser(grammar: str) -> Parser:
    module, _, function = grammar.partition(":")
    return Parser(Language(getattr(import_module(module), function)()))


def _find_definitions(
    node: Node, language: CodeLanguage, limit: int, depth: int
) -> list[_Definition]:
    """Return the definitions among the children of a node, each from the end of the one before."""
    definitions: list[_Definition] = []
    for child in _flatten(node, language):
        inner = _unwrap(child, language)
        if inner is None or not (title := _title(inner, language)):
            continue
        start = _comment_start(child)
        end = min(limit, child.end_point.row + 1)
        if definitions and start < definitions[-1].end:
            continue  # on one line with the definition before
        definition = _Definition(title, start, end)
        if depth < MAX_DEPTH:
            definition.children = _find_inner(inner, language, end, depth + 1)
        definitions.append(definition)
    return definitions


def _find_inner(node: Node, language: CodeLanguage, limit: int, depth: int) -> list[_Definition]:
    if node.type in ("function_definition", "function_declaration", "method_definition"):
        return []  # functions inside functions are part of them
    return [
        definition
        for child in node.children
        if child.type in language.bodies
        for definition in _find_definitions(child, language, limit, depth)
        if definition.start > node.start_point.row
    ]


def _flatten(node: Node, language: CodeLanguage) -> Iterator[Node]:
    """Yield the children of a node, and those of preprocessor conditions and the like."""
    for child in node.children:
        if child.type.startswith("preproc_if") or child.type in _TRANSPARENT:
            yield from _flatten(child, language)
        else:
            yield child


def _unwrap(node: Node, language: CodeLanguage) -> Node | None:
    """Return the definition of a node, or inside of its wrappers."""
    if node.type in language.definitions:
        return node
    if node.type in language.wrappers:
        for child in node.children:
            if (inner := _unwrap(child, language)) is not None:
                return inner
    return None


def _title(node: Node, language: CodeLanguage) -> str:
    """Return the word and the name of a definition, "" if it has no name or no body."""
    if node.type == "variable_declarator":
        value = node.child_by_field_name("value")
        if value is None or value.type not in ("arrow_function", "function_expression", "class"):
            return ""
    needs_body = node.type.endswith("_specifier") or node.type == "mod_item"
    if needs_body and node.child_by_field_name("body") is None:
        return ""
    name = _name_of(node)
    word = language.definitions[node.type]
    return f"{word} {name}".strip() if name else ""


def _name_of(node: Node) -> str:
    if node.type == "impl_item":
        parts = [node.child_by_field_name(part) for part in ("trait", "type")]
        return " for ".join(_text(part) for part in parts if part is not None)
    if node.type == "type_declaration":  # of Go
        specs = [child for child in node.children if child.type in ("type_spec", "type_alias")]
        return ", ".join(_text(child.child_by_field_name("name")) for child in specs)
    name = node.child_by_field_name("name")
    if name is None:
        name = node.child_by_field_name("declarator")
        while name is not None and (inner := name.child_by_field_name("declarator")) is not None:
            name = inner
    receiver = node.child_by_field_name("receiver")
    return f"{_text(receiver)} {_text(name)}".strip() if receiver is not None else _text(name)


def _text(node: Node | None) -> str:
    return " ".join((node.text or b"").decode(errors="replace").split()) if node is not None else ""


def _comment_start(node: Node) -> int:
    """Return the first line of the comments and attributes directly above a node."""
    start, before = node.start_point.row, node.prev_sibling
    while before is not None and ("comment" in before.type or before.type == "attribute_item"):
        above = before.prev_sibling
        begins_line = above is None or _last_row(above) < before.start_point.row
        if not begins_line or _last_row(before) + 1 < start:
            break
        start, before = before.start_point.row, above
    return start


def _last_row(node: Node) -> int:
    """Return the last line of a node, which may include the line break behind it."""
    return node.end_point.row - (node.end_point.column == 0)


def _write(
    builder: DocumentBuilder,
    lines: Sequence[str],
    fence: str,
    span: tuple[int, int],
    definitions: Sequence[_Definition],
    level: int,
) -> None:
    """Write the lines of a span: those before the first definition, then each definition."""
    start, end = span
    first = definitions[0].start if definitions else end
    if level > 1 and definitions and sum(map(bool, map(str.strip, lines[start:first]))) == 1:
        # A line such as "class Name:" says little on its own: it belongs to what is below it.
        definitions = [replace(definitions[0], start=start), *definitions[1:]]
        first = start
    _add_code(builder, lines, fence, start, first)
    for number, definition in enumerate(definitions):
        last = definitions[number + 1].start if number + 1 < len(definitions) else end
        builder.add_heading(level, definition.title, definition.start + 1, (definition.title,))
        size = sum(len(line) + 1 for line in lines[definition.start : definition.end])
        children = definition.children if size > CODE_ITEM_SIZE else ()
        _write(builder, lines, fence, (definition.start, last), children, level + 1)


def _add_code(
    builder: DocumentBuilder, lines: Sequence[str], fence: str, start: int, end: int
) -> None:
    while start < end and not lines[start].strip():
        start += 1
    while start < end and not lines[end - 1].strip():
        end -= 1
    if start == end:
        return
    code = lines[start:end]
    ticks = "`" * max(3, 1 + longest_run("\n".join(code), "`"))
    first = builder.add_block("\n".join([f"{ticks}{fence}", *code, ticks]), start + 1)
    for offset in range(1, len(code)):
        builder.add_place(first + 1 + offset, start + 1 + offset)


def _text_line(document: ParsedDocument, line: int) -> int:
    """Return the line of the text of a line of the file, counted from 1."""
    before = [text_line for text_line, place in document.places if place <= line]
    return before[-1] if before else 0
