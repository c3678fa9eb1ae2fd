"""Scores of texts and vectors, computed in the process."""
