"""User templates: `.format` strings, and Jinja2 or Handlebars templates run in a sandbox."""
