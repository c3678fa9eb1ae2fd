"""Vectors of stored items: which of them are near each other."""
