"""Automatic edges between items, kept up to date after every write.

In reading order: `linker` (entry point) and `space_linker` (rounds over dirty items); `rules` (the
table), `nearest_rules` (k nearest by tags and vectors), `name_rules` (edges from the name index),
`name_weights`; `name_index` and `label_changes` (what a change does to the index); `name_labels`
(what an item is indexed under), `name_keys` (blocking keys), `unspaced_scripts`, `name_finders`;
`name_edges` (all edges by name at once, as a reference).
"""
