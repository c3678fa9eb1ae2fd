"""Graph context: entities, relationships, axioms and claims for a query, for given entities, or for a document."""
