"""Knowledge in PostgreSQL: all roles in one schema, for many processes and machines."""
