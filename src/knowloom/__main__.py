"""`python -m knowloom` is the command `knowloom`."""

from knowloom.cli.main import main

main()
