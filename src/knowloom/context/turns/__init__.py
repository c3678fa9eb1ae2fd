"""Contexts over turns: what was shown before, and texts that continue an earlier one."""
