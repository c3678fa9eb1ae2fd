"""Commands that set up, maintain and serve a store."""
