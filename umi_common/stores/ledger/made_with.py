"""What a store was made with, kept in its ledger: a vector or a term means nothing under another model or analyzer."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

from umi_common.config import AnalyzerConfig, UmiConfig
from umi_common.errors import LedgerDamaged, ReindexRequired
from umi_common.protocols import Embedder
from umi_common.stores.ledger.file import FILE
from umi_common.stores.ledger.ledger import Ledger

EMBEDDER = "embedder"
ANALYZER = "analyzer"
CHECK = "{}.crc32"
"""Beside each of the two its CRC-32; a store made before umi wrote it has none."""


def fingerprint(embedder: Embedder) -> dict[str, str]:
    """The settings that tie a store to an embedder; written with the first chunk."""
    return _with_check(EMBEDDER, embedder.name)


def analyzer_settings(config: AnalyzerConfig) -> dict[str, str]:
    """The settings that tie a store to an analyzer."""
    return _with_check(ANALYZER, analyzer_text(config))


def _with_check(key: str, value: str) -> dict[str, str]:
    return {key: value, CHECK.format(key): str(zlib.crc32(value.encode()))}


def _setting(ledger: Ledger, key: str) -> str | None:
    """None: never written.

    Raises:
        LedgerDamaged: If it is not what was written.
    """
    meta = ledger.meta()
    value, check = meta.get(key), meta.get(CHECK.format(key))
    if check is not None and (value is None or check != str(zlib.crc32(str(value).encode()))):
        raise LedgerDamaged(f"{ledger.path}: its setting {key!r} is not what was written; restore it from a copy")
    return None if value is None else str(value)


def made_with(directory: Path) -> tuple[str, int] | None:
    """Name and dimension of the embedder behind a store's vectors; None: it has none yet, or there is no store.

    Raises:
        LedgerDamaged, NotAStore, StoreError: As `HybridStore.open`.
    """
    if not (directory / FILE).exists():
        return None
    ledger = Ledger(directory / FILE, read_only=True)
    try:
        name, bytes_each = _setting(ledger, EMBEDDER), ledger.vector_bytes()
    finally:
        ledger.close()
    return None if name is None or bytes_each is None else (name, bytes_each // 4)


def refuse_other_embedder(ledger: Ledger, embedder: Embedder) -> None:
    """Compare by name, which says model and version; the dimension shows at the first vector.

    Raises:
        ReindexRequired: If the store's vectors are another model's.
    """
    made_with = _setting(ledger, EMBEDDER)
    if made_with is not None and made_with != embedder.name:
        raise ReindexRequired(
            f"{ledger.path} was made with embedder {made_with!r}, not {embedder.name!r}; open it with the first, or "
            "embed everything again: HybridStore.reindex(path, embedder=...)"
        )


def checked_config(ledger: Ledger, config: UmiConfig | None) -> UmiConfig:
    """The settings to use: the caller's, or the defaults with the store's analyzer; remembers it in a new store.

    Raises:
        ReindexRequired: If the caller's analyzer is not the store's.
    """
    text = _setting(ledger, ANALYZER)
    if text is None:
        settings = UmiConfig() if config is None else config
        if not ledger.read_only:
            ledger.set_meta(analyzer_settings(settings.analyzer))
        return settings
    try:
        stored = AnalyzerConfig(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise LedgerDamaged(f"{ledger.path} has lost its settings; restore it from a copy") from error
    if config is None:
        return UmiConfig(analyzer=stored)
    UmiConfig(analyzer=stored).check_live_change(config)
    return config


def analyzer_text(config: AnalyzerConfig) -> str:
    """The analyzer's settings as JSON, equal for equal settings."""
    values = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in config}
    return json.dumps(values, ensure_ascii=False, sort_keys=True)
