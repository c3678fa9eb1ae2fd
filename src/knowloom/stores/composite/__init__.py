"""Several stores behind all roles: `store` is the adapter, `consistency` compares the stores."""
