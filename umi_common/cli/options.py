"""Options that several commands share, and functions that open a store, read a filter or print."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from math import isfinite
from pathlib import Path
from subprocess import list2cmdline
from typing import TYPE_CHECKING, Annotated, Any

import typer

from umi_common.config import UmiConfig
from umi_common.errors import ConfigError, NotAStore
from umi_common.retriever import DualRetriever

if TYPE_CHECKING:
    from umi_common.stores.embedded.hybrid import HybridStore

StoreOption = Annotated[Path, typer.Option("--store", "-s", help="The store's folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="File with settings (TOML); variables UMI_* override it.")
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where", "-w", help="KEY=VALUE of the metadata, or a filter as JSON; if given several times, all must hold."
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option("--start", help="Leave out passages before this ISO date or time (UTC), and passages without a time."),
]
EndOption = Annotated[
    str | None, typer.Option("--end", help="Leave out passages of this time or later, and passages without a time.")
]
LimitOption = Annotated[int, typer.Option("--limit", "-k", min=1, max=100, help="Largest number of hits.")]
DEFAULT_STORE = Path(".umi")


def quoted(path: Path) -> str:
    """The path quoted for a command in the user's shell."""
    return list2cmdline([str(path)]) if os.name == "nt" else shlex.quote(str(path))


def opened(store: Path, *, writing: bool = False, embedder: Any = None) -> HybridStore:
    """Open an existing store, for reading only unless `writing`; `embedder` as in `HybridStore.open`.

    Raises:
        NotAStore: If the directory holds no store. The message says how to create one, or why that is not possible.
    """
    from umi_common.stores.batch_checks import checked_directory
    from umi_common.stores.embedded.directory import check_directory
    from umi_common.stores.embedded.hybrid import HybridStore

    directory = checked_directory(store)
    check_directory(directory)
    try:
        check_directory(directory, must_exist=True)
    except NotAStore as error:
        raise NotAStore(f"{store} holds no store; make one: umi index FOLDER --store {quoted(store)}") from error
    return HybridStore.open(store, read_only=not writing, embedder=embedder)


def opened_without_model(store: Path, *, writing: bool = False) -> HybridStore:
    """Open an existing store without loading its embedder, for commands that do not embed; raises as `opened`."""
    from umi_common.embedders import AbsentEmbedder
    from umi_common.stores.batch_checks import checked_directory
    from umi_common.stores.ledger.made_with import stored_embedder

    known = stored_embedder(checked_directory(store))
    return opened(store, writing=writing, embedder=None if known is None else AbsentEmbedder(*known))


@contextmanager
def opened_retriever(store: Path, config: Path | None, *, writable: bool = False) -> Iterator[DualRetriever]:
    """Open a retriever over a store; both are closed at the end of the block.

    "Today" in a query is the day in the computer's time zone.

    Args:
        config: File with the settings; None: see `UmiConfig.load`.
        writable: Whether to open the store for writing, and to create it if there is none.

    Raises:
        NotAStore: If the directory holds no store, unless `writable`.
    """
    from umi_common.stores.embedded.hybrid import HybridStore

    settings = UmiConfig.load(config)
    model = settings.embedder.model
    with HybridStore.open(store, embedder=model) if writable else opened(store, embedder=model) as source:
        source.reconfigure(source.config.replaced(embedder=settings.embedder))  # such as its limits of calls
        with DualRetriever(source, config=settings, clock=lambda: datetime.now().astimezone()) as umi:
            yield umi


def where_of(
    conditions: Sequence[str] | None, option: str = "--where", *, exact: bool = False
) -> dict[str, Any] | None:
    """The filter that demands all of these conditions; None if there are none.

    Args:
        conditions: Each is KEY=VALUE or a filter as JSON, for example `["user=ann", "year=2023"]`.
        option: Name of the option, for errors.
        exact: Whether "year=2023" matches only the number 2023; False: it also matches the string "2023", and a list
            with one of the two.

    Raises:
        ConfigError: If a condition is neither KEY=VALUE nor a JSON object.
    """
    parsed = [_condition(condition, option, exact) for condition in conditions or ()]
    return {"$and": parsed} if parsed else None


def _condition(condition: str, option: str, exact: bool) -> dict[str, Any]:
    if condition.lstrip().startswith("{"):
        try:
            return dict(json.loads(condition))
        except ValueError as error:
            raise ConfigError(
                f"{option} {condition!r} is no JSON ({error}); expected KEY=VALUE or an object"
            ) from error
    key, equals, value = condition.partition("=")
    if not key or not equals or key[-1] in "<>!" or value.startswith("="):
        raise ConfigError(
            f"{option} {condition!r}: expected KEY=VALUE, for example {option} speaker=Mira, or a JSON object, for "
            f'example {option} \'{{"year": {{"$gte": 2023}}}}\''
        )
    try:
        read = json.loads(value)
    except ValueError:
        read = value
    # A store holds texts, finite floats, truth values, and whole numbers of 64 bits. Another value is compared as text.
    can_be_stored = isfinite(read) if isinstance(read, float) else isinstance(read, int) and -(2**63) <= read < 2**63
    wanted = [read, value] if can_be_stored else [read if isinstance(read, str) else value]
    if exact:
        return {key: wanted[0]}
    return {"$or": [{key: {"$in": wanted}}, *({key: {"$contains": each}} for each in wanted)]}


def print_json(value: Mapping[str, Any]) -> None:
    """Print a JSON object on one line; values of types that JSON lacks are converted to strings."""
    utf8 = str(getattr(sys.stdout, "encoding", "")).lower() == "utf-8"
    typer.echo(json.dumps(value, ensure_ascii=not utf8, default=str))
