"""How people and programs reach the engine: each surface is a thin translation of it."""
