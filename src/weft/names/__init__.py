"""Finders of names in texts, one file each; the registry knows them by name."""
