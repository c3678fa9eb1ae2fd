"""The state of automatic edges: dirty items, the name index, and lists of nearest items."""
