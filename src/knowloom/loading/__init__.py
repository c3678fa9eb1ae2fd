"""From files and folders to batches of items and edges."""
