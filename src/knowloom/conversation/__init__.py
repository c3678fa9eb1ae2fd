"""Conversations: arguments about earlier turns, and records of what was shown."""
