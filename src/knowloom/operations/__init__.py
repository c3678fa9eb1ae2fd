"""Operating the knowledge: backups, exports and erasure."""
