"""Agents over HTTP: the endpoint of the Model Context Protocol."""
