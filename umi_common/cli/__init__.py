"""`umi`, the command line.

A command prints text or JSON on stdout. Exit codes: 0 for success; 1 for an error, with one line on stderr that says
what to do; 2 for wrong usage; 130 after Ctrl-C.

    program       collects all commands, and turns errors into exit codes
    options       options that commands share; functions that open a store
    indexing      `umi index`
    search        `umi search`, `explain`, `ask`
    maintenance   `umi status`, `verify`, `repair`, `rebuild`
    migrating     `umi migrate`
    serving       `umi mcp`
    measuring     `umi demo`, `eval`, `tune`
"""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `umi`. The commands are imported here, so that Ctrl-C during their import prints one line."""
    try:
        from umi_common.cli import program
    except KeyboardInterrupt:
        sys.stderr.write("umi: stopped before it began\n")
        raise SystemExit(130) from None
    program.main()
