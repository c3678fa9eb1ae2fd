"""Memories of conversations, packed into the prompts that need them."""
