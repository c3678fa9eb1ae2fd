"""The provider: what is known about an entity and a question, by prompt section, for an agent's prompt."""
