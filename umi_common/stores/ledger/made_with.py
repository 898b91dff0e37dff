"""Records a store's embedder and analyzer in its ledger. Another embedder or analyzer is refused, because its vectors
or terms cannot be compared with the stored ones."""

from __future__ import annotations

import json
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

from umi_common.config import AnalyzerConfig, UmiConfig
from umi_common.embedders import as_embedder
from umi_common.embedders.adapters import PACKAGED
from umi_common.errors import LedgerDamaged, ReindexRequired
from umi_common.protocols import Embedder
from umi_common.stores.ledger.file import FILE
from umi_common.stores.ledger.ledger import Ledger
from umi_common.types import inode_of

EMBEDDER = "embedder"
"""Name of the setting that holds the embedder's name; written with the first chunk."""
ANALYZER = "analyzer"
"""Name of the setting that holds the analyzer's settings, as `analyzer_text` writes them."""
CHECK = "{}.crc32"
"""Name of the setting that holds the CRC-32 of the setting in braces; stores of early versions lack it."""

VECTOR_BYTES = "SELECT length(vector) FROM vectors WHERE typeof(vector) = 'blob' LIMIT 1"
"""Selects the length of one vector in bytes; no row if there is no vector, or if the vectors are damaged."""


def recorded(key: str, value: str) -> dict[str, str]:
    """The settings to store: `value` and its checksum. `key` is EMBEDDER or ANALYZER."""
    return {key: value, CHECK.format(key): str(zlib.crc32(value.encode()))}


def _setting(ledger: Ledger, key: str) -> str | None:
    """The value of a setting; None: it was never written. Raises LedgerDamaged if it is not what was written."""
    meta = ledger.meta()
    value, check = meta.get(key), meta.get(CHECK.format(key))
    if check is not None and check != str(zlib.crc32(str(value).encode())):
        raise LedgerDamaged(f"{ledger.path}: its setting {key!r} is not what was written; restore it from a copy")
    return None if value is None else str(value)


def stored_embedder(directory: Path) -> tuple[str, int] | None:
    """Name and dimension of the embedder that made a store's vectors; None: there are no vectors, or no store.

    Raises:
        LedgerDamaged, NotAStore, StoreError: See `HybridStore.open`.
    """
    if inode_of(directory / FILE) is None:
        return None
    with closing(Ledger(directory / FILE, read_only=True)) as ledger:
        name, sizes = _setting(ledger, EMBEDDER), ledger.all_rows(VECTOR_BYTES)
    return None if name is None or not sizes else (name, sizes[0][0] // 4)


def model_of(ledger: Ledger, embedder: Any, config: UmiConfig) -> Embedder:
    """The caller's embedder, else the config's, else the store's if its name is in `PACKAGED`, else the default.

    A store's embedder that is not in `PACKAGED` is not loaded by its name, because loading may mean downloading.
    """
    if embedder is None and config.embedder.model is None and (stored := _setting(ledger, EMBEDDER)) in PACKAGED:
        embedder = stored
    return as_embedder(embedder, config)


def refuse_other_embedder(ledger: Ledger, embedder: Embedder) -> None:
    """Raise ReindexRequired if an embedder of another name made the store. A name contains model and version."""
    stored = _setting(ledger, EMBEDDER)
    if stored is not None and stored != embedder.name:
        raise ReindexRequired(
            f"{ledger.path} was made with embedder {stored!r}, not {embedder.name!r}; open it with the first, or "
            "embed everything again: HybridStore.reindex(path, embedder=...)"
        )


def checked_config(ledger: Ledger, config: UmiConfig | None) -> UmiConfig:
    """The caller's settings or the defaults, with the store's analyzer. A new store records the analyzer.

    Raises:
        ReindexRequired: If the analyzer in `config` differs from the store's.
        LedgerDamaged: If the store's settings cannot be read.
    """
    text = _setting(ledger, ANALYZER)
    if text is None:
        settings = UmiConfig() if config is None else config
        if not ledger.read_only:
            ledger.set_meta(recorded(ANALYZER, analyzer_text(settings.analyzer)))
        return settings
    try:
        stored = AnalyzerConfig(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise LedgerDamaged(
            f"{ledger.path} has settings of its analyzer that this umi cannot read: a newer "
            "umi-retrieval may have written them; upgrade it, or restore the file from a copy"
        ) from error
    return UmiConfig(analyzer=stored).checked_live_change(UmiConfig() if config is None else config)


def analyzer_text(config: AnalyzerConfig) -> str:
    """The analyzer's settings as JSON; equal settings give equal texts."""
    values = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in config}
    return json.dumps(values, ensure_ascii=False, sort_keys=True)
