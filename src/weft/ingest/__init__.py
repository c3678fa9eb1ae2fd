"""What comes in: checking, comparing with what is stored, reading files."""
