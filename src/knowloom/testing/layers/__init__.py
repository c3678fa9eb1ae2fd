"""The contracts of layers."""
