"""`umi migrate`: a store's chunks and vectors into another store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from umi_common.cli.options import LEDGER, JsonOption, opened_without_model, print_json
from umi_common.errors import ConfigError, MissingExtra, StoreLocked, StoreUnavailable

if TYPE_CHECKING:
    from umi_common.migrate.run import Movable

CHECKPOINT = "umi.db-migration.json"
API_KEY = "QDRANT_API_KEY"
ON_DISK = "qdrant:"
ADDRESSES = (
    "A store's folder, or a Qdrant collection: http://HOST:6333/COLLECTION (key: $QDRANT_API_KEY) or "
    "qdrant:FOLDER/COLLECTION on this disk."
)
SourceArgument = Annotated[str, typer.Argument(help=ADDRESSES)]
TargetArgument = Annotated[str, typer.Argument(help="Likewise; created if it does not exist.")]
CheckpointOption = Annotated[
    Path | None,
    typer.Option("--checkpoint", help=f"File for the progress; by default {CHECKPOINT} in a store's folder."),
]
PageOption = Annotated[int, typer.Option("--page", min=1, max=10_000, help="Chunks copied in one call.")]


@dataclass(frozen=True)
class Collection:
    """A Qdrant collection's address."""

    client: dict[str, Any]
    """Arguments of QdrantClient."""
    name: str


def migrate(
    source: SourceArgument,
    target: TargetArgument,
    checkpoint: CheckpointOption = None,
    page: PageOption = 500,
    json: JsonOption = False,
) -> None:
    """Copy a store with its vectors into another and compare the two; embeds nothing.

    After a stop or a kill, the same command continues.
    """
    from umi_common.migrate import migrate as move

    ends = address_of(source), address_of(target)
    if ends[0] == ends[1]:
        raise ConfigError(f"{source} is both source and target; name another target")
    with ExitStack() as stack:
        here = stack.enter_context(store_at(ends[0]))
        there = stack.enter_context(store_at(ends[1], copy_of=here))
        done = move(
            here,
            there,
            checkpoint=_checkpoint(ends) if checkpoint is None else checkpoint,
            page=page,
            show_progress=not json and sys.stderr.isatty(),
        )
    if json:
        print_json({"source": source, "target": target, **asdict(done)})
    else:
        typer.echo(f"{target} holds the {done.chunks} chunks of {source}, each compared; {done.copied} copied now")
        typer.echo(
            f"{done.samples} sampled queries: {done.agreement:.1%} of each arm's ten best scores agree within 5 %"
        )


def address_of(text: str) -> Path | Collection:
    """Where a store is.

    Raises:
        ConfigError: If it names no collection.
    """
    if text.startswith(("http://", "https://")):
        url, _, name = text.rstrip("/").rpartition("/")
        if not url.endswith("/"):
            return Collection({"url": url, "api_key": os.environ.get(API_KEY)}, name)
    elif text.startswith(ON_DISK):
        folder, _, name = text.removeprefix(ON_DISK).rpartition("/")
        if folder and name:
            return Collection({"path": str(Path(folder).resolve())}, name)
    else:
        return Path(text).resolve()
    raise ConfigError(f"{text} names no collection; write {text.rstrip('/')}/COLLECTION")


@contextmanager
def store_at(place: Path | Collection, copy_of: Movable | None = None) -> Iterator[Any]:
    """Open a store without loading its embedder.

    Args:
        copy_of: The store that will be copied into this one; a new store takes its embedder and settings. None: the
            store is only read.
    """
    if isinstance(place, Collection):
        with _qdrant(place.client) as client:
            yield _collection(client, place.name, copy_of)
    else:
        with _folder(place, copy_of) as store:
            yield store


def _folder(place: Path, copy_of: Any) -> Any:
    from umi_common.embedders import AbsentEmbedder
    from umi_common.stores.embedded.hybrid import HybridStore
    from umi_common.stores.ledger.made_with import stored_embedder

    if copy_of is None:
        return opened_without_model(place)
    known = stored_embedder(place)
    own = None if known is None else AbsentEmbedder(*known)
    config = None if (place / LEDGER).exists() else copy_of.config
    return HybridStore.open(place, embedder=copy_of.embedder if own is None else own, config=config)


def _collection(client: Any, name: str, copy_of: Any) -> Any:
    from umi_common.embedders import AbsentEmbedder
    from umi_common.stores.qdrant import QdrantStore
    from umi_common.stores.qdrant.collection import collection_made_with
    from umi_common.stores.qdrant.connection import Connection

    known = collection_made_with(Connection(client, name))
    if known is not None:
        return QdrantStore(client, name, AbsentEmbedder(*known))
    if copy_of is None:
        raise ConfigError(f"collection {name!r} holds no store of umi; check the name, or migrate one into it first")
    return QdrantStore(client, name, copy_of.embedder, config=copy_of.config)


@contextmanager
def _qdrant(arguments: dict[str, Any]) -> Iterator[Any]:
    try:
        from qdrant_client import QdrantClient
    except ImportError as error:
        raise MissingExtra("qdrant-client", "qdrant") from error
    try:
        # the client would print a warning; QdrantStore checks the version itself
        client = QdrantClient(**arguments, check_compatibility=False)
    except RuntimeError as error:
        raise StoreLocked(f"{arguments['path']} is open in another process; stop that one first") from error
    except Exception as error:
        raise StoreUnavailable(f"no Qdrant at {arguments.get('url') or arguments.get('path')}: {error}") from error
    try:
        yield client
    finally:
        client.close()


def _checkpoint(ends: tuple[Path | Collection, Path | Collection]) -> Path:
    """In the target's folder, else the source's, else the working directory."""
    folders = [end for end in reversed(ends) if isinstance(end, Path)]
    return (folders[0] if folders else Path()) / CHECKPOINT
