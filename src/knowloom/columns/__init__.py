"""Values of items as arrays of codes, for filters."""
