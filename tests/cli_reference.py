"""The reference of every command, from its own --help, into docs/cli.md: python tests/cli_reference.py"""

from __future__ import annotations

import re
from pathlib import Path

import typer

from umi_common.cli.program import app

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
BLOCK = re.compile(r"(?<=<!-- generated -->\n).*?(?=<!-- /generated -->)", re.DOTALL)


def reference() -> str:
    """One table a command: arguments and options with their defaults."""
    lines = []
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        lines += [f"### umi {name}", "", " ".join(command.help.split()), "", "| option | |", "|---|---|"]
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                spelled = f"`{parameter.name.upper()}`"
            else:
                spelled = ", ".join(f"`{option}`" for option in reversed(parameter.opts))
            plain = parameter.default is not None and not isinstance(parameter.default, bool)
            default = f" (default: {parameter.default})" if plain and not parameter.required else ""
            lines.append(f"| {spelled} | {parameter.help}{default} |")
        lines.append("")
    return "\n".join(lines)


def written(page: str) -> str:
    """The page with the reference in its place."""
    return BLOCK.sub(lambda _: reference() + "\n", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
