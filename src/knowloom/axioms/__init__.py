"""Axioms: rules about entities, relationships and claims that are not only shown but executed."""
