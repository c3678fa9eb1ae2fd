"""Servers for tests: installed from package registries, started on loopback."""
