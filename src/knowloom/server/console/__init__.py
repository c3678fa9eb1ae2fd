"""The web console: its page and files, and the routes that it needs beside those of the API."""
