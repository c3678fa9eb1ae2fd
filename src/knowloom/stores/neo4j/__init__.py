"""Edges in Neo4j: `store` is the adapter, `bolt` its connection."""
