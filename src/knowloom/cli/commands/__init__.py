"""The commands, in one package for each group of the help."""
