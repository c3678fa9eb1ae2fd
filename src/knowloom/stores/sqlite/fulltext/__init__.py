"""Words by FTS5, as a layer of another store."""
