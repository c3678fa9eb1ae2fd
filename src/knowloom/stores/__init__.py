"""Storage adapters. Each implements one or more of the ports and inherits from none."""
