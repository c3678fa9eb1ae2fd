"""Capabilities: thin objects over the engine; none imports another."""
