"""Writes to the SQLite file: batches, the updates of a space, and cutting items anew."""
