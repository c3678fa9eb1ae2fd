"""Benchmarks of speed and quality; see README.md in this folder."""
