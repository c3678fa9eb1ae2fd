"""Structure free text with a language model and load the result.

In reading order: `pipeline` (one text, start to end), `chunking`, `prompting` (ask, check, ask
again), `schema` (valid answers), `merge` (chunks with each other and with stored items) and
`records` (a folder per run, to load again without a model).
"""
