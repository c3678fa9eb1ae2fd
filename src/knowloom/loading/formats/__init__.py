"""Parsers of documents: one file for each format, from bytes to a `ParsedDocument`."""
