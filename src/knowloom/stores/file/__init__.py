"""Items and edges in a folder: `store` is the adapter, `folder` reads and writes the files."""
