"""Embeds the texts of a write in batches, with a cache and a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np

from umi_common.config import EmbedderConfig
from umi_common.embedders.adapters import declared_dim
from umi_common.embedders.attempts import PERMANENT
from umi_common.embedders.cache import FileCache, VectorCache
from umi_common.embedders.documents import BatchFailed, batches_of, embed_batches
from umi_common.errors import EmbedderError, ReindexRequired
from umi_common.pool import Vectors, unit_vectors
from umi_common.progress import progress_bar
from umi_common.protocols import Embedder
from umi_common.runtime.losses import warn_once

CACHED_FROM = 16
"""Smallest number of texts of a write for which the cache of vectors is used. The cache takes a second write to the
disk, which is not worth while for a write that adds one message of a chat."""
ZEROS_WARNING = (
    "embedder %r gave vectors of zeros for all %d texts of a call: searches find these texts by their words alone. "
    "Check the model, then embed the texts again: HybridStore.reindex(path, embedder=...). Logged once for each model."
)


def embedded(
    ids: Sequence[str],
    texts: Sequence[str],
    embedder: Embedder,
    *,
    dim: int | None,
    show_progress: bool = False,
    config: EmbedderConfig | None = None,
    cache: VectorCache | None = None,
) -> Vectors:
    """(n, dim) unit vectors of the texts, in their order; zeros for a text that the model embeds as zeros.

    Args:
        ids: (n,) ids of the texts' chunks, for error messages.
        texts: (n,) texts. Equal texts are embedded once.
        embedder: If its attribute `in_place` is true, as that of umi's default model, the cache is not used, and the
            bytes of a batch are not limited.
        dim: Dimension of the vectors in the store; None: the store holds no vectors yet.
        config: Sizes of the batches, and how long failed calls are retried; None: the defaults.
        cache: A text with a vector other than zeros in the cache is not embedded. Each batch is added to the cache as
            soon as it is embedded, so that a repeated call embeds only the other texts. The cache is not used for fewer
            than CACHED_FROM texts. None: there is no cache.

    Raises:
        EmbedderError: If the embedder fails, or does not return one finite vector per text; names the chunk.
        ReindexRequired: If the embedder's dimension is not `dim`.
    """
    config = EmbedderConfig() if config is None else config
    if len(texts) < CACHED_FROM:
        cache = None
    if getattr(embedder, "in_place", False):
        # The model is as fast as a cache, and its calls are not sent anywhere, so their bytes need no limit.
        cache, config = None, config.model_copy(update={"batch_bytes": sys.maxsize})
    cached = {} if cache is None else cache.get(texts)
    known = {text: vector for text, vector in cached.items() if vector.any()}  # zeros may come from a failed call
    expected = dim or declared_dim(embedder)
    if expected is None and known and len(known) == len(set(texts)):
        # All texts are cached, but a model of this name may have another dimension now: embed one word to find it.
        expected = embedded(ids[:1], ["dimension"], embedder, dim=None, config=config).shape[1]
    missing = _missing(texts, known, expected)

    def on_batch(batch: Sequence[int], vectors: object) -> None:
        nonlocal dim
        rows = _checked_rows([ids[index] for index in batch], vectors, embedder, dim)
        dim, own = rows.shape[1], [texts[index] for index in batch]
        if len(own) > 1 and not rows.any() and not getattr(embedder, "in_place", False):
            warn_once("embedder", f"zeros of {embedder.name}", ZEROS_WARNING, embedder.name, len(own))
        known.update(zip(own, rows, strict=True))
        if cache is not None:
            cache.put({text: known[text].copy() for text in own})
        advance(len(batch))

    with progress(len(texts), show_progress) as advance:
        advance(len(texts) - len(missing))
        while missing:  # a second time if the new vectors have another dimension than the cached ones
            try:
                embed_batches(embedder, texts, batches_of(texts, missing, config), config, on_batch, advance.note)
            except BatchFailed as failed:
                raise embedding_failure(failed, ids, f"embedder {embedder.name!r}", cache) from failed.__cause__
            missing = _missing(texts, known, dim)
    return np.stack([known[text] for text in texts]) if texts else np.zeros((0, dim or 0), dtype=np.float32)


def _missing(texts: Sequence[str], known: Mapping[str, Vectors], dim: int | None) -> list[int]:
    """The first index of each distinct text that has no vector of dimension `dim` in `known`; None: any dimension."""
    missing: dict[str, int] = {}
    for index, text in enumerate(texts):
        if text not in known or dim not in (None, len(known[text])):
            missing.setdefault(text, index)
    return list(missing.values())


def embedding_failure(
    failed: BatchFailed, ids: Sequence[str], embedder: str, cache: object, loss: str = "nothing was stored"
) -> EmbedderError:
    """The error to raise for a failed batch; it names the batch's chunks and says what to do.

    Args:
        failed: `failed.batch` holds indices of `ids`; its cause is the embedder's error.
        embedder: What failed, with its name.
        cache: The cache that holds the vectors of the earlier batches; None: there is none.
        loss: What the failure means for the chunks.
    """
    error = failed.__cause__
    advice = "Repeat the call"
    if isinstance(error, PERMANENT):
        advice = "A repeated call would fail, too: correct the embedder; its own error is the cause of this one"
    elif isinstance(cache, FileCache):
        advice = "Repeat the call: texts whose vectors the cache holds are not embedded again"
    elif cache is not None:
        advice = (
            "Repeat the call on this open store: its cache of vectors is in memory. A cache that outlives the store "
            "needs a directory and a model with a model_name"
        )
    return EmbedderError(
        f"{embedder} failed on chunks {ids[failed.batch[0]]!r} to {ids[failed.batch[-1]]!r} "
        f"({type(error).__name__}); {loss}. {advice}"
    )


def _checked_rows(ids: Sequence[str], returned: object, embedder: Embedder, dim: int | None) -> Vectors:
    """(n, dim) unit rows from `returned`, the embedder's reply for these n chunks; raises the errors of `embedded`."""
    try:
        vectors = np.asarray(returned, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise EmbedderError(
            f"embedder {embedder.name!r} did not return a matrix of numbers for chunks {ids[0]!r} to {ids[-1]!r}; "
            f"nothing was stored; expected shape ({len(ids)}, dimension)"
        ) from error
    if vectors.ndim != 2 or len(vectors) != len(ids) or not vectors.shape[1]:
        raise EmbedderError(
            f"embedder {embedder.name!r} returned shape {vectors.shape} for {len(ids)} texts from chunk {ids[0]!r} on; "
            f"expected ({len(ids)}, dimension)"
        )
    if dim is not None and vectors.shape[1] != dim:
        raise ReindexRequired(
            f"embedder {embedder.name!r} gives {vectors.shape[1]} dimensions, and the store, or the reply before, "
            f"has {dim}; open the store with its own embedder, or call HybridStore.reindex(path, embedder=...)"
        )
    if declared_dim(embedder) not in (None, vectors.shape[1]):
        raise EmbedderError(
            f"embedder {embedder.name!r} has dim {declared_dim(embedder)} and returned {vectors.shape[1]} dimensions; "
            "nothing was stored; make them equal"
        )
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        bad = ids[int(np.flatnonzero(~finite)[0])]
        raise EmbedderError(
            f"embedder {embedder.name!r} returned NaN or infinity for chunk {bad!r}; nothing was stored"
        )
    return unit_vectors(vectors)


class progress:
    """A progress bar over `total` chunks, as a context manager; call it with a count to advance.

    Args:
        show: False: there is no bar, and calls do nothing.
        step: What the bar says is being done.
    """

    def __init__(self, total: int, show: bool, step: str = "embedding") -> None:
        self._bar = progress_bar(total=total, unit="chunk", desc=step) if show else None

    def __enter__(self) -> progress:
        return self

    def __call__(self, count: int) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str("", refresh=False)
            self._bar.update(count)

    def note(self, text: str) -> None:
        """Show a text beside the bar until it advances."""
        if self._bar is not None:
            self._bar.set_postfix_str(text)

    def __exit__(self, *exc_info: object) -> None:
        if self._bar is not None:
            self._bar.close()
