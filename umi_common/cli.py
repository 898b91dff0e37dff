"""`umi`: the command line. Every command ends with 0, or with one line that says what to do and 1 (2: wrong usage)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from umi_common.errors import UmiError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

QuestionOption = Annotated[str | None, typer.Option("--question", "-q", help="Ask this instead of the five.")]
DirectoryOption = Annotated[Path, typer.Option("--directory", "-d", help="Where the demo keeps its index.")]


@app.callback()
def umi() -> None:
    """Find the right passage, say why, and fit it into the prompt."""


@app.command()
def demo(question: QuestionOption = None, directory: DirectoryOption = Path(".umi-demo")) -> None:
    """Index the Python standard library's docs, ask through LangChain and LlamaIndex, show why."""
    from umi_common.demo.run import run

    run(directory, question)


def main() -> None:
    """Entry point of `umi`."""
    try:
        app()
    except UmiError as error:
        typer.echo(f"umi: {error}", err=True)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
