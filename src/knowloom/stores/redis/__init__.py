"""Profiles in Redis: `store` is the adapter, `space_writer` its transactions."""
