"""What users hold: thin objects over the engine, one folder or file each; none knows another."""
