"""Axioms: executable rules about entities, relationships and claims."""
