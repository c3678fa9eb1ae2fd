"""Commands that search and build contexts."""
