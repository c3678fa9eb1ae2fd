"""Values to JSON and back, both directions in one module per family."""
