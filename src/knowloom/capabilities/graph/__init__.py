"""Graph context: entities, relationships, axioms and claims for a query, entities or a document."""
