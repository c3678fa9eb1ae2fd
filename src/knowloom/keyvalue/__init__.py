"""Redis as a service of stores, caches and limits: its URL and one client for all of them."""
