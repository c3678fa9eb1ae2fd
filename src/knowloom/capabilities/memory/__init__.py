"""Memory: what was said before, in the prompt that needs it. `memory.py` holds the object users work with."""
