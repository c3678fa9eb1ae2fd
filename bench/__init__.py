"""What is measured; see README.md in this folder."""
