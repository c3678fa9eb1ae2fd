"""Reads that spare round trips."""
