"""Commands that store, change and show knowledge."""
