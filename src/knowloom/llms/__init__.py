"""Language models that structure free text."""
