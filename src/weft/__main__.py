"""`python -m weft` is the command `weft`."""

from weft.surfaces.cli import main

main()
