"""The `knowloom` command line, one module per command."""
