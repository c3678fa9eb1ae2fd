"""Noticing damaged pages, rebuilding derived tables, and salvaging items from a damaged file."""
