"""Rendering of contexts as Markdown, YAML, JSON and plain text."""
