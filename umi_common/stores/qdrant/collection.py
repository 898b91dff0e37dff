"""Opening a collection: made where there is none, refused where it was made with something else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from umi_common.config import AnalyzerConfig, UmiConfig
from umi_common.errors import ConfigError, NotAStore, ReindexRequired, StoreUnavailable
from umi_common.protocols import Embedder
from umi_common.stores.ledger.made_with import analyzer_text
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.qdrant.connection import Connection
from umi_common.stores.qdrant.facts import hashed
from umi_common.stores.qdrant.filters import tenant_field
from umi_common.stores.qdrant.points import DENSE, LEXICAL, SETTINGS
from umi_common.stores.qdrant.terms import Saturation

FORMAT = 1
AVERAGE_LENGTH = 64.0
"""Stated, in terms: between a chat turn and a passage. It only steers which candidates the lexical arm proposes; their
scores use the true average. Measured in docs/scale.md."""
K1_LEAST = 0.1
"""With k1 = 0 a stored value would not tell how often a term occurs."""
_PLAIN = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_ORDERED = ("position", "time", "draw", "source_draw")


@dataclass(frozen=True, slots=True)
class Opened:
    """What a collection was made with."""

    config: UmiConfig
    analyzer: Analyzer
    saturation: Saturation
    dim: int


def open_collection(
    connection: Connection,
    embedder: Embedder,
    config: UmiConfig | None,
    *,
    tenants: Sequence[str],
    ordered: Sequence[str],
    options: Mapping[str, Any],
) -> Opened:
    """The collection, made if there is none; its payload indexes are made if they are missing.

    Raises:
        ConfigError: If a tenant's key cannot be a path.
        NotAStore: If the collection is somebody else's.
        ReindexRequired: If it was made with another embedder, dimension or analyzer.
        StoreUnavailable: If the server fails.
    """
    for key in tenants:
        if not _PLAIN.fullmatch(key):
            raise ConfigError(f"tenant key {key!r}: expected letters, digits, _ and -; Qdrant reads it as a path")
    if not connection.call("collection_exists"):
        _create(connection, embedder, options)
    stored = connection.retrieve([SETTINGS]).get(SETTINGS)
    if stored is None:
        _refuse_stranger(connection)
        settings = _settings(embedder, UmiConfig() if config is None else config)
        connection.upsert([connection.models.PointStruct(id=SETTINGS, vector={}, payload=settings)])
    else:
        settings = stored.payload
    if not connection.is_local:
        _index(connection, tenants, ordered)
    return _opened(connection, settings, embedder, config)


def made_with(connection: Connection) -> tuple[str, int] | None:
    """Name and dimension of the embedder behind a collection's vectors; None: there is no collection of ours.

    Raises:
        StoreUnavailable: If the server fails.
    """
    stored = connection.retrieve([SETTINGS]).get(SETTINGS) if connection.call("collection_exists") else None
    payload = {} if stored is None else stored.payload
    name, dim = payload.get("embedder"), payload.get("dimension")
    return (name, dim) if isinstance(name, str) and isinstance(dim, int) else None


def _create(connection: Connection, embedder: Embedder, options: Mapping[str, Any]) -> None:
    models = connection.models
    try:
        connection.call(
            "create_collection",
            # Vectors are unit, so the dot product is the cosine, and what comes back is what was stored, to the bit.
            vectors_config={DENSE: models.VectorParams(size=embedder.dim, distance=models.Distance.DOT)},
            sparse_vectors_config={LEXICAL: models.SparseVectorParams(modifier=models.Modifier.IDF)},
            **options,
        )
    except StoreUnavailable:
        if not connection.call("collection_exists"):  # else another process was first
            raise


def _index(connection: Connection, tenants: Sequence[str], ordered: Sequence[str]) -> None:
    models = connection.models
    kind = models.PayloadSchemaType
    schemas: dict[str, Any] = dict.fromkeys(_ORDERED, kind.INTEGER) | {
        "source": kind.KEYWORD,
        "facts": kind.KEYWORD,
    }
    for key in ordered:
        schemas |= {f"numbers.{hashed(key)}": kind.FLOAT, f"texts.{hashed(key)}": kind.INTEGER}
    for key in tenants:
        schemas[tenant_field(key)] = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    known = connection.call("get_collection").payload_schema
    for name, schema in schemas.items():
        if name not in known:
            connection.call("create_payload_index", field_name=name, field_schema=schema, wait=True)


def _refuse_stranger(connection: Connection) -> None:
    params = connection.call("get_collection").config.params
    dense, sparse = params.vectors, params.sparse_vectors or {}
    idf = connection.models.Modifier.IDF
    ours = isinstance(dense, dict) and DENSE in dense and LEXICAL in sparse and sparse[LEXICAL].modifier == idf
    if not ours or connection.call("count", exact=True).count:
        raise NotAStore(f"collection {connection.collection!r} was not made by umi; name another, and let umi make it")


def _settings(embedder: Embedder, config: UmiConfig) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "embedder": embedder.name,
        "dimension": embedder.dim,
        "analyzer": analyzer_text(config.analyzer),
        "terms": Analyzer(config.analyzer).fingerprint,
        "k1": max(config.lexical.k1, K1_LEAST),
        "b": config.lexical.b,
        "average_length": AVERAGE_LENGTH,
    }


def _opened(
    connection: Connection, settings: Mapping[str, Any], embedder: Embedder, config: UmiConfig | None
) -> Opened:
    name = connection.collection
    try:
        known = AnalyzerConfig(**json.loads(settings["analyzer"]))
        saturation = Saturation(settings["k1"], settings["b"], settings["average_length"])
        made_with, dim, terms = settings["embedder"], int(settings["dimension"]), settings["terms"]
        understood = settings["format"] == FORMAT
    except (KeyError, TypeError, ValueError) as error:
        raise NotAStore(f"collection {name!r} has lost its settings; restore it from a snapshot") from error
    if not understood:
        raise NotAStore(f"collection {name!r} has format {settings['format']!r}; this umi writes format {FORMAT}")
    if made_with != embedder.name or dim != embedder.dim:
        raise ReindexRequired(
            f"collection {name!r} was made with embedder {made_with!r} ({dim} dimensions), not {embedder.name!r} "
            f"({embedder.dim}); open it with the first, or add everything to a new collection"
        )
    settled = UmiConfig(analyzer=known) if config is None else config
    analyzer = Analyzer(settled.analyzer)
    if settled.analyzer != known or analyzer.fingerprint != terms:
        raise ReindexRequired(
            f"collection {name!r} was made with another analyzer; open it with config=None, or add everything to a new "
            "collection"
        )
    return Opened(settled, analyzer, saturation, dim)
