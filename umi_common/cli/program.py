"""The command-line program: its commands and its exit codes."""

from __future__ import annotations

import io
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from umi_common import __version__
from umi_common.cli import maintenance, measuring, migrating, search, serving
from umi_common.cli.indexing import INTERRUPTED, index
from umi_common.errors import UmiError
from umi_common.explain import one_line

WRONG_USAGE = 2
EXTRA_ARGUMENT = {
    "query": "; put a question of several words in quotation marks",
    "--store": "; name the store with --store",
}
"""What to do about an argument too many: the first whose argument or option the command has."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"umi {__version__}")
        raise typer.Exit


@app.callback()
def umi(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Find the passages that answer a question, show why, and fit them into a prompt.

    Start with: umi index FOLDER, then umi search "your question".
    """


app.command()(index)
app.command()(search.search)
app.command()(search.explain)
app.command()(search.ask)
app.command()(maintenance.status)
app.command()(maintenance.verify)
app.command()(maintenance.repair)
app.command()(maintenance.rebuild)
app.command()(migrating.migrate)
app.command()(serving.mcp)
app.command()(measuring.demo)
app.command("eval")(measuring.evaluate)
app.command()(measuring.tune)


def main() -> None:
    """Entry point of `umi`."""
    logging.basicConfig(level=logging.CRITICAL)  # hides umi's log lines; `main` prints one line about an error
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115 sys.stderr is None if the caller closed it
    if isinstance(sys.stdout, io.TextIOWrapper):  # the encoding may lack letters, for example a Windows code page
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # typer and `umi index` return this code after Ctrl-C
            raise KeyboardInterrupt
    except UmiError as error:
        _end(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        _end("stopped; what was written is kept: run the same command again", INTERRUPTED)
    except SystemExit as ended:  # typer raises it with 1 if the reader of `umi ... | head` has ended, which is no error
        raise SystemExit(0 if isinstance(ended.__context__, BrokenPipeError) else ended.code) from None
    except OSError as error:
        where = f": {error.filename}; check the path and its permissions" if error.filename else "; see where it writes"
        _end(f"{error.strerror or error}{where}", 1)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # only usage errors have it; typer may hold a copy of click
        if usage is None:
            raise
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":  # typer has printed the help
            raise SystemExit(WRONG_USAGE) from error
        path = "umi" if context is None else context.command_path
        message = usage().rstrip(".")
        if context is not None and message.startswith("Got unexpected extra argument"):
            names = {name for parameter in context.command.params for name in parameter.opts}
            message += next((hint for name, hint in EXTRA_ARGUMENT.items() if name in names), "")
        _end(f"{message}{'' if message.endswith('?') else '.'} See: {path} --help", WRONG_USAGE)
    raise SystemExit(code if isinstance(code, int) else 0)


def _end(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"umi: {one_line(message)}\n")
    raise SystemExit(code)
