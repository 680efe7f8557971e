"""`python -m tritone`."""

from tritone.cli import main

main(prog_name="tritone")
