"""Conditions of users as JSON and as text."""
