"""`umi migrate`: copies the chunks and vectors of a store into another store."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from umi_common.cli.options import JsonOption, opened_without_model, print_json
from umi_common.errors import ConfigError, StoreLocked, StoreUnavailable, optional_module

if TYPE_CHECKING:
    from umi_common.migrate import Movable

CHECKPOINT = "umi.db-migration.json"
"""Name of the file for the progress. A store accepts files named `umi.db-*` in its directory."""
API_KEY = "QDRANT_API_KEY"
"""Environment variable with the key of a Qdrant server."""
LOCAL_PREFIX = "qdrant:"
"""Prefix of the address of a Qdrant collection in a local folder."""
ADDRESSES = (
    "A store's folder, or a Qdrant collection: http://HOST:6333/COLLECTION (key: $QDRANT_API_KEY) or "
    "qdrant:FOLDER/COLLECTION on this disk."
)
SourceArgument = Annotated[str, typer.Argument(help=ADDRESSES)]
TargetArgument = Annotated[str, typer.Argument(help="An address like SOURCE; created if it does not exist.")]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        help=f"File for the progress; by default {CHECKPOINT} in the target's folder, else in the source's; between "
        "two collections, in the current folder.",
    ),
]
PageOption = Annotated[int, typer.Option("--page", min=1, max=10_000, help="Chunks copied at a time.")]


@dataclass(frozen=True)
class Collection:
    """The address of a Qdrant collection."""

    client_arguments: dict[str, Any]
    """Arguments of `QdrantClient`: "path" of a folder, or "url" and "api_key" of a server."""
    name: str


def migrate(
    source: SourceArgument,
    target: TargetArgument,
    checkpoint: CheckpointOption = None,
    page: PageOption = 500,
    json: JsonOption = False,
) -> None:
    """Copy a store with its vectors into another store and compare the two, without embedding.

    After a stop or a kill, the same command continues.
    """
    from umi_common.migrate import migrate as copy_store

    from_address, to_address = address_of(source), address_of(target)
    if from_address == to_address:
        raise ConfigError(f"{source} is both source and target; name another target")
    folder = next((address for address in (to_address, from_address) if isinstance(address, Path)), Path())
    with ExitStack() as stack:
        clients = dict[str, Any]()
        from_store = _store_at(from_address, stack, clients)
        to_store = _store_at(to_address, stack, clients, to_be_copied=from_store)
        report = copy_store(
            from_store,
            to_store,
            checkpoint=folder / CHECKPOINT if checkpoint is None else checkpoint,
            page=page,
            show_progress=not json and sys.stderr.isatty(),
        )
    if json:
        print_json({"source": source, "target": target, **asdict(report)})
    else:
        typer.echo(
            f"{target} holds the same {report.chunks} chunks and vectors as {source}; this run copied {report.copied}\n"
            f"{report.samples} sampled queries were searched in both stores, by words and by vectors: "
            f"{report.agreement:.1%} of the ten best scores are equal within 5 %"
        )


def address_of(text: str) -> Path | Collection:
    """The folder or the collection that an address on the command line names.

    Raises:
        ConfigError: If a Qdrant address lacks the collection's name, or the address of a folder is not a valid path.
    """
    from umi_common.stores.batch_checks import checked_directory

    trimmed = text.rstrip("/")
    if text.startswith(("http://", "https://")):
        url, _, name = trimmed.rpartition("/")
        if urlsplit(url).netloc:
            return Collection({"url": url, "api_key": os.environ.get(API_KEY)}, name)
        example = trimmed if urlsplit(text).netloc else f"{urlsplit(text).scheme}://HOST:6333"
    elif text.startswith(LOCAL_PREFIX):
        folder, _, name = text.removeprefix(LOCAL_PREFIX).rpartition("/")
        if folder and name:
            return Collection({"path": str(checked_directory(folder).resolve())}, name)
        example = f"{LOCAL_PREFIX}FOLDER" if trimmed == LOCAL_PREFIX else trimmed
    else:
        return checked_directory(text).resolve()
    raise ConfigError(f"{text} names no collection; write {example}/COLLECTION")


def _store_at(
    address: Path | Collection, stack: ExitStack, clients: dict[str, Any], to_be_copied: Movable | None = None
) -> Any:
    """Open a store without loading its embedder; `stack` closes it.

    Args:
        clients: Open Qdrant clients by URL or folder, to which a new one is added. Two collections in one folder share
            a client, because a folder can be opened only once.
        to_be_copied: The store from whose embedder and settings a missing store is created. None: the store must exist,
            and one in a folder is opened for reading only.
    """
    if isinstance(address, Path):
        return stack.enter_context(_store_in_folder(address, to_be_copied))
    arguments = address.client_arguments
    where = arguments.get("url") or arguments["path"]
    if to_be_copied is None and "path" in arguments and not Path(where).is_dir():
        raise ConfigError(f"{where} is no folder; check its name")  # the client would create it
    if where not in clients:
        clients[where] = stack.enter_context(closing(_qdrant_client(arguments)))
    return stack.enter_context(_store_in_collection(clients[where], address.name, to_be_copied))


def _store_in_folder(folder: Path, to_be_copied: Any) -> Any:
    from umi_common.embedders import AbsentEmbedder
    from umi_common.stores.embedded.hybrid import HybridStore
    from umi_common.stores.ledger.file import FILE
    from umi_common.stores.ledger.made_with import stored_embedder

    if to_be_copied is None:
        return opened_without_model(folder)
    made_with = stored_embedder(folder)  # None also for a store without chunks
    embedder = to_be_copied.embedder if made_with is None else AbsentEmbedder(*made_with)
    config = None if (folder / FILE).exists() else to_be_copied.config
    return HybridStore.open(folder, embedder=embedder, config=config)


def _store_in_collection(client: Any, name: str, to_be_copied: Any) -> Any:
    from umi_common.embedders import AbsentEmbedder
    from umi_common.stores.qdrant import QdrantStore
    from umi_common.stores.qdrant.collection import collection_made_with
    from umi_common.stores.qdrant.connection import Connection

    made_with = collection_made_with(Connection(client, name))
    if made_with is not None:
        return QdrantStore(client, name, AbsentEmbedder(*made_with))
    if to_be_copied is None:
        wrong = f"collection {name!r} holds no store of umi; check the name, or migrate a store into it first"
        raise ConfigError(wrong)
    return QdrantStore(client, name, to_be_copied.embedder, config=to_be_copied.config)


def _qdrant_client(arguments: dict[str, Any]) -> Any:
    qdrant_client = optional_module("qdrant_client", "qdrant-client", "qdrant")
    try:
        # The client's own check would print a warning; QdrantStore checks the version itself.
        return qdrant_client.QdrantClient(**arguments, check_compatibility=False)
    except Exception as error:
        if isinstance(error, RuntimeError) and "path" in arguments:
            raise StoreLocked(f"{arguments['path']} is open in another process; stop that process first") from error
        raise StoreUnavailable(f"no Qdrant at {arguments.get('url') or arguments.get('path')}: {error}") from error
