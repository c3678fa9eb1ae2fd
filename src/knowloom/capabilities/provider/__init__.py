"""The provider: knowledge about an entity and a query, by prompt section."""
