"""Rerankers: models that score passages by their relevance to a query. One file per adapter."""
