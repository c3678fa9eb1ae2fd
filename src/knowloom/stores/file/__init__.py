"""Knowledge in a folder of JSON files. `store` is the adapter; `folder` reads and writes the files."""
