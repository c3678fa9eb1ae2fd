"""Load knowledge from files, folders and dicts: discover, read, parse, compare, write.

In reading order: `loader` (one load, start to end), `discovery` (files of a folder), `readers`
(rows of a file), `three_layer`, `markdown` and `front_matter` (formats), `diff` (what changed) and
`provenance` (what came from where).
"""
