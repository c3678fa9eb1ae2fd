"""Texts with places for values: `.format` strings, and templates of users in Jinja2 or Handlebars, which run in a process of their own."""
