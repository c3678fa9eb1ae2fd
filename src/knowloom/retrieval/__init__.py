"""From a query to ranked candidates."""
