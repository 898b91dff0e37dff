"""The Python standard library as some 10,000 chunks: one per public function, class and method.

The source files are parsed and never imported, so none of their code runs.
"""

from __future__ import annotations

import ast
import re
import sysconfig
import warnings
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from umi_common.types import Chunk

LEFT_OUT = frozenset({"site-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "__pycache__"})
"""Names of files and folders of the library that are left out, besides those in `standard_library`."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def standard_library() -> list[Chunk]:
    """The running interpreter's library as chunks, in the order of its files and, in a file, of the definitions.

    A chunk's id is the qualified name ("asyncio.tasks.wait_for"), its source the module, and its position the number of
    the definition in the module, from 0. The text is the signature and the docstring; without a docstring, the
    signature and the comment above the definition.

    Left out are the names in LEFT_OUT, files and folders that begin with "_", which are private, and folders that begin
    with "config-", which hold the settings with which Python was built.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    chunks: list[Chunk] = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if LEFT_OUT.isdisjoint(parts) and not any(part.startswith(("_", "config-")) for part in parts[:-1]):
            module = ".".join(part for part in parts if part != "__init__")
            if module and (parts[-1] == "__init__" or not parts[-1].startswith("_")):
                chunks.extend(module_chunks(module, path.read_bytes()))
    return chunks


def module_chunks(module: str, code: bytes) -> list[Chunk]:
    """The chunks of a module's public definitions, in order; none if the code cannot be parsed.

    Definitions in `else` and `except` branches are left out.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parser warns of invalid escapes in old modules
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError):
            return []
    # Not splitlines(): it also splits at a form feed and other characters that do not end a line of Python.
    lines = re.split(r"\r\n?|\n", code.decode("utf-8", "replace"))
    chunks: dict[str, Chunk] = {}
    for name, node in _definitions(tree, module):
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        text = f"{name}{_signature(node)}\n{ast.get_docstring(node) or _comment_above(node, lines)}".strip()
        if name not in chunks:  # of several definitions with one name the first counts
            chunks[name] = Chunk(
                name, text, metadata={"module": module, "kind": kind}, source=module, position=len(chunks)
            )
    return list(chunks.values())


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Definition]]:
    for child in getattr(node, "body", []):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if not child.name.startswith("_"):
                name = f"{prefix}.{child.name}"
                yield name, child
                if isinstance(child, ast.ClassDef):
                    yield from _definitions(child, name)
        elif isinstance(child, (ast.If, ast.Try)):
            yield from _definitions(child, prefix)


def _signature(node: Definition) -> str:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        return f"({bases})" if bases else ""
    return f"({ast.unparse(node.args)})"


def _comment_above(node: Definition, lines: list[str]) -> str:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    above = takewhile(lambda line: line.startswith("#"), map(str.strip, reversed(lines[: first - 1])))
    return "\n".join(reversed([line.lstrip("# ") for line in above]))
