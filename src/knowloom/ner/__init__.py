"""Adapters for named entity recognisers."""
