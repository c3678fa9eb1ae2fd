"""The `knowloom` command line."""
