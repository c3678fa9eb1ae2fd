"""Automatic edges between items."""
