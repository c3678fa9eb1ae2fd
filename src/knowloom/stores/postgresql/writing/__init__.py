"""Writes to the tables: batches, vectors, and cutting items anew."""
