"""Knowledge in one SQLite file: `store` is the adapter, the other modules are its parts."""
