"""API keys and the places where they are stored."""
