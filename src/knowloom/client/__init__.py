"""Python client for a remote server."""
