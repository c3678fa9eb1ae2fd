"""Limits of what a key may ask for: requests and bytes per minute, and turns."""
