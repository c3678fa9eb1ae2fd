"""Load knowledge from files, folders and dicts: discover, read, parse, cut, compare, write.

In reading order: `loader` (one load, start to end), `readers` (the files of a source), `discovery`
(the files of a folder), `json_rows` and `three_layer` (rows), `parsed_documents`, `file_formats`,
`document_parser` and `formats/` (documents), `sections` (their items), `document_links`, `diff`
(what changed) and `provenance` (what came from where).
"""
