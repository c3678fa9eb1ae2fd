"""From candidates to a text within the token budget."""
