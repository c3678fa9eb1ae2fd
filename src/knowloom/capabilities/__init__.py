"""What users hold: thin objects over the engine. None imports another."""
