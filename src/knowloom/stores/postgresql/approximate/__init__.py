"""Approximate vector search by choice: indexes of pgvector that supply candidates."""
