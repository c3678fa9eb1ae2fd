"""Detection of credentials in text before it is stored."""
