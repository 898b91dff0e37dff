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

from umi_common.cli.program import app, main

__all__ = ["app", "main"]
