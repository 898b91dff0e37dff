"""Open a collection, or create it; refuse a collection that was made with other settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from umi_common.config import AnalyzerConfig, UmiConfig, check_settings
from umi_common.errors import ConfigError, NotAStore, ReindexRequired, StoreUnavailable
from umi_common.protocols import Embedder
from umi_common.stores.ledger.made_with import analyzer_text
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.qdrant.connection import Connection, models
from umi_common.stores.qdrant.filters import hashed, tenant_field
from umi_common.stores.qdrant.points import DENSE, LEXICAL, SETTINGS, Saturation
from umi_common.stores.qdrant.statistics import CachedStatistics

FORMAT = 1
"""Version of the format of stored settings and points."""
AVERAGE_LENGTH = 64.0
"""Average length of a text, in terms, that the sparse values of points assume: longer than a chat message, shorter than
a passage. Only the choice of candidates depends on it; scores use the true average. Measured in docs/scale.md."""
K1_MIN = 0.1
"""Smallest k1 for the sparse values of points. With k1 = 0, they would not tell the term frequencies."""
MADE_WITH = ("format", "embedder", "dimension", "analyzer", "terms")
"""Names of the stored settings that must equal those of the caller. "terms" is the analyzer's fingerprint."""
_TENANT_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
"""A valid tenant key. Qdrant would read other characters as parts of a path."""
_INTEGER_FIELDS, _STRING_FIELDS = ("position", "time", "draw", "source_draw"), ("source", "facts")
"""Payload fields, described in `points`, that have an index."""


@dataclass(frozen=True, slots=True)
class OpenCollection:
    """An open collection, and its settings."""

    connection: Connection
    config: UmiConfig
    analyzer: Analyzer
    saturation: Saturation
    """k1, b and average length of the stored sparse values; scores use those of `config` and the texts."""
    dim: int
    tenants: tuple[str, ...]
    """Metadata keys with a tenant index."""
    search_params: Any
    """`models.SearchParams` of the dense arm; None: the server's defaults."""
    made_with: Mapping[str, Any]
    """The stored settings named in MADE_WITH, as of the opening."""
    statistics: CachedStatistics = field(default_factory=CachedStatistics)

    def check(self, settings: Mapping[str, Any] | None) -> None:
        """Raise if the collection was made again since it was opened.

        Raises:
            NotAStore: If `settings`, which the collection has now, is None.
            ReindexRequired: If `settings` differs from `made_with`.
        """
        name = self.connection.collection
        if settings is None:
            raise NotAStore(f"collection {name!r} has lost its settings: another program has made it again")
        changed = [field for field in MADE_WITH if settings.get(field) != self.made_with[field]]
        if "embedder" in changed or "dimension" in changed:
            raise ReindexRequired(
                f"collection {name!r} was made again, with embedder {settings.get('embedder')!r} "
                f"({settings.get('dimension')} dimensions); open a new QdrantStore over it with that embedder"
            )
        if changed:
            raise ReindexRequired(
                f"collection {name!r} was made again, with another analyzer or version of umi; open a new QdrantStore "
                "over it"
            )


def open_collection(
    connection: Connection,
    embedder: Embedder,
    config: UmiConfig | None,
    *,
    tenants: Sequence[str],
    ordered: Sequence[str],
    options: Mapping[str, Any],
    search_params: Any,
) -> OpenCollection:
    """Open the collection. The collection and its payload indexes are created if they do not exist.

    Arguments and errors are those of `QdrantStore`.
    """
    check_settings(config)
    for name, keys in (("tenants", tenants), ("ordered", ordered)):
        if isinstance(keys, str) or not all(isinstance(key, str) for key in keys):
            raise ConfigError(f"{name} is {keys!r:.80}; expected a list of metadata keys")
    for key in tenants:
        if not _TENANT_KEY.fullmatch(key):
            raise ConfigError(f"tenant key {key!r}: expected letters, digits, _ and -; Qdrant reads it as a path")
    if not connection.call("collection_exists"):
        _create(connection, embedder, options)
    settings = _stored_settings(connection)
    if settings is None and _is_empty(connection):
        settings = _new_settings(embedder, UmiConfig() if config is None else config)
        connection.upsert([models().PointStruct(id=SETTINGS, vector={}, payload=settings)])
    elif settings is None:
        settings = _stored_settings(connection)  # another process may have written them since the first attempt
    if settings is None:
        raise NotAStore(f"collection {connection.collection!r} was not made by umi; name another, and let umi make it")
    if not connection.is_local:  # local mode has no payload indexes
        _create_indexes(connection, tenants, ordered)
    return _opened(connection, settings, embedder, config, tuple(tenants), search_params)


def chunks_alone(condition: Any = None) -> Any:
    """A filter for the chunks that pass a condition; None: for all chunks. The point with the settings never passes."""
    m = models()
    settings = m.HasIdCondition(has_id=[SETTINGS])
    return m.Filter(must=None if condition is None else [condition], must_not=[settings])


def settings_request() -> Any:
    """A query for the point with the settings, for a batch of queries."""
    m = models()
    return m.QueryRequest(filter=m.Filter(must=[m.HasIdCondition(has_id=[SETTINGS])]), limit=1, with_payload=True)


def collection_made_with(connection: Connection) -> tuple[str, int] | None:
    """Name and dimension of the embedder that a collection was made with; None: umi made no such collection."""
    payload = (_stored_settings(connection) if connection.call("collection_exists") else None) or {}
    name, dim = payload.get("embedder"), payload.get("dimension")
    return (name, dim) if isinstance(name, str) and isinstance(dim, int) else None


def _create(connection: Connection, embedder: Embedder, options: Mapping[str, Any]) -> None:
    m = models()
    try:
        connection.call(
            "create_collection",
            # Vectors have length 1, so the dot product is the cosine. With DOT Qdrant stores vectors unchanged.
            vectors_config={DENSE: m.VectorParams(size=embedder.dim, distance=m.Distance.DOT)},
            sparse_vectors_config={LEXICAL: m.SparseVectorParams(modifier=m.Modifier.IDF)},
            **options,
        )
    except StoreUnavailable:
        if not connection.call("collection_exists"):  # else another process created it first
            raise


def _create_indexes(connection: Connection, tenants: Sequence[str], ordered: Sequence[str]) -> None:
    m = models()
    kind = m.PayloadSchemaType
    schemas: dict[str, Any] = dict.fromkeys(_INTEGER_FIELDS, kind.INTEGER)
    schemas |= dict.fromkeys(_STRING_FIELDS, kind.KEYWORD)
    for key in ordered:
        schemas |= {f"numbers.{hashed(key)}": kind.FLOAT, f"texts.{hashed(key)}": kind.INTEGER}
    for key in tenants:
        schemas[tenant_field(key)] = m.KeywordIndexParams(type=m.KeywordIndexType.KEYWORD, is_tenant=True)
    known = connection.call("get_collection").payload_schema
    for name, schema in schemas.items():
        if name not in known:
            connection.call("create_payload_index", field_name=name, field_schema=schema, wait=True)


def _stored_settings(connection: Connection) -> Mapping[str, Any] | None:
    stored = connection.retrieve([SETTINGS]).get(SETTINGS)
    return None if stored is None else stored.payload


def _is_empty(connection: Connection) -> bool:
    """Whether the collection has the vectors of umi's collections, and no point."""
    params = connection.call("get_collection").config.params
    dense, sparse = params.vectors, params.sparse_vectors or {}
    idf = models().Modifier.IDF
    ours = isinstance(dense, dict) and DENSE in dense and LEXICAL in sparse and sparse[LEXICAL].modifier == idf
    return ours and not connection.call("count", exact=True).count


def _new_settings(embedder: Embedder, config: UmiConfig) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "embedder": embedder.name,
        "dimension": embedder.dim,
        "analyzer": analyzer_text(config.analyzer),
        "terms": _analyzer(config.analyzer).fingerprint,
        "k1": max(config.lexical.k1, K1_MIN),
        "b": config.lexical.b,
        "average_length": AVERAGE_LENGTH,
    }


def _analyzer(config: AnalyzerConfig) -> Analyzer:
    """The analyzer of all texts and queries. For the language "auto" it is that of English, because one sparse query
    vector is compared with the texts of all languages."""
    analyzer = Analyzer(config)
    return analyzer.of_language(analyzer.languages[0])


def _opened(
    connection: Connection,
    settings: Mapping[str, Any],
    embedder: Embedder,
    config: UmiConfig | None,
    tenants: tuple[str, ...],
    search_params: Any,
) -> OpenCollection:
    """The collection with its stored settings; raises if `embedder` or `config` differs from them."""
    name = connection.collection
    if settings.get("format", FORMAT) != FORMAT:
        raise NotAStore(
            f"collection {name!r} has format {settings['format']!r} and this version of umi reads format {FORMAT}; "
            "open it with the version that made it"
        )
    try:
        known = AnalyzerConfig(**json.loads(settings["analyzer"]))
        saturation = Saturation(settings["k1"], settings["b"], settings["average_length"])
        made_with = {field: settings[field] for field in MADE_WITH}
    except (KeyError, TypeError, ValueError) as error:
        raise NotAStore(f"collection {name!r} has unreadable settings; restore it from a snapshot") from error
    model, dim = made_with["embedder"], made_with["dimension"]
    if model != embedder.name or dim != embedder.dim:
        raise ReindexRequired(
            f"collection {name!r} was made with embedder {model!r} ({dim} dimensions), not {embedder.name!r} "
            f"({embedder.dim}); open it with {model!r}, or add everything to a new collection"
        )
    chosen = UmiConfig() if config is None else config
    if "analyzer" not in chosen.model_fields_set:
        chosen = chosen.replaced(analyzer=known)
    analyzer = _analyzer(chosen.analyzer)
    if chosen.analyzer != known:
        raise ReindexRequired(
            f"collection {name!r} was made with another analyzer; open it with config=None or without analyzer in "
            "the config, or add everything to a new collection"
        )
    if analyzer.fingerprint != made_with["terms"]:
        raise ReindexRequired(
            f"collection {name!r} holds terms that another version of umi or of Snowball made; add everything to a new "
            "collection, or open it with that version"
        )
    return OpenCollection(connection, chosen, analyzer, saturation, embedder.dim, tenants, search_params, made_with)
