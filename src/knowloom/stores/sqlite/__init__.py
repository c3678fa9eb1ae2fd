"""Knowledge in one SQLite file. `store` is the adapter; `file` opens, `write` writes, `view`, `words` and `vectors` read."""
