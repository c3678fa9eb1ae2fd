"""Commands that measure and tune retrieval."""
