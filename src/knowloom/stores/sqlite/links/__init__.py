"""Automatic edges and the name index of the SQLite store."""
