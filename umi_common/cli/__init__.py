"""`umi`, the command line.

In: arguments. Out: text or JSON on stdout. Exit codes: 0; 1 with one line on stderr that says what to do; 2 for wrong
usage.

    program       all commands, errors as exit codes
    options       options that commands share; opening a store
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
    """Entry point of `umi`. Imports the commands, which takes most of a second, where Ctrl-C is one line, too."""
    try:
        from umi_common.cli import program
    except KeyboardInterrupt:
        sys.stderr.write("umi: stopped before it began\n")
        raise SystemExit(130) from None
    program.main()
