"""`python -m analysis`."""

from analysis.cli import main

main()
