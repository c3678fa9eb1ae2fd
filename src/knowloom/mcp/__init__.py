"""The Model Context Protocol: knowledge as tools, resources and a prompt for agents."""
