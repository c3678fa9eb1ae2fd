"""One module per command or group of related commands."""
