"""Change the embedder or the analyzer of a closed store."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from pathlib import Path

from umi_common.config import EmbedderConfig, UmiConfig
from umi_common.embedders import identity_of
from umi_common.embedders.cache import VectorCache, document_cache
from umi_common.protocols import Embedder
from umi_common.stores.document_embedder import embedded, progress
from umi_common.stores.embedded.directory import check_directory, locked_for_writing
from umi_common.stores.ledger.acknowledged import MarkFile
from umi_common.stores.ledger.codec import encode_vectors
from umi_common.stores.ledger.file import FILE
from umi_common.stores.ledger.history import Mark
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.ledger.made_with import ANALYZER, EMBEDDER, analyzer_text, recorded
from umi_common.stores.lexical.file import drop

TEXTS_EMBEDDED_AT_ONCE = 2_000
"""Number of texts that are read and embedded at a time; limits the memory for texts and vectors."""


def reindex(directory: Path, embedder: Embedder | None, config: UmiConfig | None, *, show_progress: bool) -> None:
    """See `HybridStore.reindex`."""
    check_directory(directory, must_exist=True)
    lock = locked_for_writing(directory)
    mark_file = MarkFile(directory)
    try:
        with closing(Ledger(directory / FILE)) as ledger:
            mark_file.check(mark_file.read(), ledger, _mark(ledger))
            session = ledger.begin_session()
            made_with = {} if config is None else recorded(ANALYZER, analyzer_text(config.analyzer))
            if embedder is None:
                ledger.set_meta(made_with)
            else:
                settings = (UmiConfig() if config is None else config).embedder
                cache = document_cache(directory, identity_of(embedder), settings.cached_documents)
                made_with |= recorded(EMBEDDER, embedder.name)
                _embed_again(ledger, embedder, settings, cache, made_with, show_progress=show_progress)
            if config is not None:
                drop(directory)
            mark = _mark(ledger)
        # SQLite keeps the write-ahead log if another process is reading; then the mark must not say "closed".
        mark_file.write(mark, session, closed=not ledger.log_bytes())
    finally:
        mark_file.close()
        lock.release()


def _mark(ledger: Ledger) -> Mark:
    with ledger.reading() as connection:
        return ledger.mark(connection)


def _embed_again(
    ledger: Ledger,
    embedder: Embedder,
    config: EmbedderConfig,
    cache: VectorCache,
    made_with: dict[str, str],
    *,
    show_progress: bool,
) -> None:
    """Replace all vectors, and store the settings `made_with`, in one transaction.

    If it fails, the old vectors and settings stay; `cache` holds the new vectors so far.
    """
    dim: int | None = None
    with ledger.transaction() as connection, progress(ledger.count(connection), show_progress) as advance:
        stored = ledger.texts(connection)
        while rows := list(islice(stored, TEXTS_EMBEDDED_AT_ONCE)):
            heads, texts = [head for head, _, _ in rows], [text for _, text, _ in rows]
            vectors = embedded([head.id for head in heads], texts, embedder, dim=dim, config=config, cache=cache)
            dim = vectors.shape[1]
            connection.executemany(
                "INSERT OR REPLACE INTO vectors (seq, vector, checksum) VALUES (?, ?, ?)",
                [(head.seq, *blob) for head, blob in zip(heads, encode_vectors(vectors), strict=True)],
            )
            advance(len(rows))
        connection.execute("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'epoch'")
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", made_with.items())
        # Recorded as a commit, so that other processes notice the change.
        ledger.record(connection, [b"embedder", embedder.name.encode()])
