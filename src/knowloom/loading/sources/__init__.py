"""Sources of documents beside plain folders: git repositories, watched folders and web pages."""
