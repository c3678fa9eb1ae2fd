"""Text analysis: words, names and synonyms."""
