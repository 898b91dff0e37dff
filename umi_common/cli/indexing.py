"""`umi index`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from umi_common.cli.options import DEFAULT_STORE, ConfigOption, JsonOption, StoreOption, print_json, quoted
from umi_common.config import UmiConfig
from umi_common.explain import one_line, with_count

if TYPE_CHECKING:
    from umi_common.files import Report

INTERRUPTED = 130
"""The exit code of a command after Ctrl-C, as in shells."""
STOPPING = b"\numi: stopping after the current batch; Ctrl-C again stops at once\n"
MAX_FILE_MB = 100.0
PDF_SECONDS = 10.0
"""Default limits, equal to those in `files.readers.reading`, which is slow to import; a test compares them."""
KINDS_SHOWN = 8
"""Largest number of kinds (name endings) of left-out files that are printed, most frequent first; --json lists all."""
NOT_TEXT = frozenset(
    [
        *(".doc", ".docx", ".epub", ".odp", ".ods", ".odt", ".pages", ".ppt", ".pptx", ".xls", ".xlsx"),
        *(".bmp", ".gif", ".heic", ".ico", ".jpeg", ".jpg", ".m4a", ".mov", ".mp3", ".mp4", ".png", ".tif", ".tiff"),
        *(".7z", ".exe", ".gz", ".jar", ".pyc", ".so", ".sqlite", ".tar", ".wav", ".webp", ".zip"),
    ]
)
"""Endings of files that are no text, which `index` refuses even if the file itself is named."""
NAMES_SHOWN = 5
"""Largest number of new, changed, removed or empty files that are named; of more, only their number is printed."""
PathsArgument = Annotated[list[str], typer.Argument(help="Files and folders.")]
"""Strings and not `Path`, because `Path("")` is the current folder."""


def index(
    paths: PathsArgument,
    store: StoreOption = DEFAULT_STORE,
    config: ConfigOption = None,
    embedder: Annotated[
        str | None,
        typer.Option("--embedder", help="minilm, fastembed:MODEL or sentence-transformers:MODEL; for a new store."),
    ] = None,
    remove_missing: Annotated[
        bool,
        typer.Option(
            "--remove-missing", help="Allow PATHS that are gone or empty now, and remove what was indexed from them."
        ),
    ] = False,
    follow_symlinks: Annotated[
        bool, typer.Option("--follow-symlinks", help="Read files outside of PATHS through symbolic links.")
    ] = False,
    max_file_mb: Annotated[
        float, typer.Option(min=0.001, help="Largest file that is read, in MB (1,000,000 bytes).")
    ] = MAX_FILE_MB,
    pdf_seconds: Annotated[
        float, typer.Option(min=0.1, max=86_400, help="Longest time to read a PDF, in seconds for each begun megabyte.")
    ] = PDF_SECONDS,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 if a file, line or page was skipped.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Index files and folders: text, Markdown, HTML, PDF, notebooks, mails, JSONL and chat logs.

    A file of another kind, such as a table (CSV), is read only if PATHS, now or in an earlier run, names the file
    itself. Unchanged files are not read again, changed ones are replaced, vanished ones removed. A file that cannot be
    read is skipped, and so is a bad line of JSONL or page of a PDF; each is listed. After Ctrl-C, run the same command
    again to continue.
    """
    from umi_common.files import index as index_files
    from umi_common.files.walk import checked_roots
    from umi_common.stores.embedded.hybrid import HybridStore

    checked_roots(paths, remove_missing=remove_missing)  # raises before a store is created
    settings = UmiConfig.load(config)
    with HybridStore.open(store, embedder=embedder, config=settings) as opened, _interruptible() as interrupts:
        report = index_files(
            opened,
            paths,
            remove_missing=remove_missing,
            follow_symlinks=follow_symlinks,
            max_file_bytes=round(max_file_mb * 1e6),
            pdf_seconds=pdf_seconds,
            show_progress=not json and sys.stderr.isatty(),
            stop=lambda: bool(interrupts),
        )
        chunks_in_store = len(opened)
    if json:
        print_json({**asdict(report), "store": str(store), "chunks_in_store": chunks_in_store})
    else:
        _print(report, store, chunks_in_store)
    if report.stopped:
        raise typer.Exit(INTERRUPTED)
    if strict and report.problems:
        raise typer.Exit(1)


def _print(report: Report, store: Path, chunks_in_store: int) -> None:
    unread = 0 if report.stopped else report.files - report.indexed - report.unchanged
    counts = {"skipped": unread, "outdated": report.outdated, "removed": report.removed}
    others = "".join(f", {count:,} {name}" for name, count in counts.items() if count)
    read = f"{report.indexed:,} indexed as {with_count(report.chunks, 'chunk')}, {report.unchanged:,} unchanged"
    files, held = with_count(report.files, "file"), with_count(chunks_in_store, "chunk")
    typer.echo(f"{files}: {read}{others}; {store} holds {held}")
    is_first = not (report.unchanged or report.changed or report.gone)  # then all files are new
    for kind, sources in {
        "new": [] if is_first else report.new,
        "changed": report.changed,
        "removed": report.gone,
        "empty, nothing to index": report.empty,
    }.items():
        shown = sources if len(sources) <= NAMES_SHOWN else [with_count(len(sources), "file")]
        for line in shown:
            typer.echo(f"{kind}: {one_line(line)}")
    text = {kind: count for kind, count in report.left_out.items() if kind not in NOT_TEXT}
    if text:
        typer.echo(f"left out, of other kinds: {_shown(text)}; to read such a file, name the file itself")
    if not_text := {kind: count for kind, count in report.left_out.items() if kind not in text}:
        typer.echo(f"left out, because umi cannot read them: {_shown(not_text)}; export documents as PDF or HTML")
    for problem in report.problems:
        typer.echo(f"umi: skipped: {one_line(problem)}", err=True)
    if chunks_in_store and not report.stopped:
        option = "" if store == DEFAULT_STORE else f" --store {quoted(store)}"
        typer.echo(f'next: umi search "your question"{option}')


def _shown(left_out: Mapping[str, int]) -> str:
    """The number of files of each kind, most frequent first; of kinds after the first KINDS_SHOWN only their number."""
    kinds = sorted(left_out.items(), key=lambda kind: (-kind[1], kind[0]))
    more = f", and {len(kinds) - KINDS_SHOWN} more kinds" if len(kinds) > KINDS_SHOWN else ""
    return one_line(", ".join(f"{ending} {count}" for ending, count in kinds[:KINDS_SHOWN])) + more


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Yield a list that is empty until the first Ctrl-C. The second Ctrl-C raises KeyboardInterrupt."""
    interrupts: list[int] = []

    def record(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # before writing: the second Ctrl-C may follow at once
        os.write(sys.stderr.fileno(), STOPPING)  # not print: the signal may have interrupted a print

    before = signal.signal(signal.SIGINT, record)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
