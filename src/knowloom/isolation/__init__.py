"""Child processes with limits, for code and files that knowloom does not trust."""
