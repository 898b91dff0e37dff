"""`umi`: the command line. A command ends with 0, or with one line that says what to do and 1 (2: wrong usage)."""

from umi_common.cli.program import app, main

__all__ = ["app", "main"]
