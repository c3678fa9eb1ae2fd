"""Administration of the file: backups, upgrades, erasure and the audit log."""
