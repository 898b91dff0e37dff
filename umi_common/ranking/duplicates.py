"""Collapse near-duplicates onto the best of them. Pure."""

from __future__ import annotations

import numpy as np

from umi_common.config import DuplicatesConfig
from umi_common.errors import ConfigError
from umi_common.pool import Ints, Vectors
from umi_common.taken import TakenRows

ROUNDING = 1e-6
"""Cosine by which float32 dot products of equal vectors may fall short of 1."""
NO_DIGEST = -1
"""Digest of a row that has no equal text to compare with."""


def collapse(
    order: Ints,
    vectors: Vectors | TakenRows,
    *,
    similarity: float = DuplicatesConfig().similarity,
    limit: int | None = None,
    digests: Ints | None = None,
) -> tuple[Ints, tuple[tuple[int, int], ...]]:
    """Leave out each row that nearly equals a better row which was kept.

    Args:
        order: (m,) rows, best first, none twice.
        vectors: (n, dim) L2-normalised; a zero row has similarity 0 to every row.
        similarity: Cosine at and above which two rows are duplicates, 0 < similarity <= 1.
        limit: Stop when this many are kept; None: read the whole order.
        digests: (n,) equal numbers >= 0 mark rows of equal text; NO_DIGEST: compared by vector alone.

    Returns:
        The kept rows in their order, and (row left out, better row that was kept) for each duplicate found.

    Raises:
        ConfigError: If similarity is outside (0, 1] or limit negative.
    """
    if not 0 < similarity <= 1:
        raise ConfigError(f"duplicate similarity {similarity!r}: expected a number above 0, at most 1")
    if limit is not None and limit < 0:
        raise ConfigError(f"duplicate limit {limit!r}: expected >= 0")
    wanted = len(order) if limit is None else min(limit, len(order))
    threshold = similarity - ROUNDING
    if digests is None and not _any_alike(vectors[order[:wanted]], threshold - ROUNDING):
        return order[:wanted], ()
    kept = np.empty(wanted, dtype=np.int64)
    basis = np.empty((wanted, vectors.shape[1]), dtype=vectors.dtype)
    row_of_digest: dict[int, int] = {}
    left_out: list[tuple[int, int]] = []
    count = 0
    for row in order.tolist():
        if count == wanted:
            break
        digest = NO_DIGEST if digests is None else int(digests[row])
        twin = row_of_digest.get(digest) if digest != NO_DIGEST else None
        if twin is None and count:
            alike = basis[:count] @ vectors[row]
            first = int((alike >= threshold).argmax())
            twin = int(kept[first]) if alike[first] >= threshold else None
        if twin is not None:
            left_out.append((row, twin))
            continue
        kept[count], basis[count] = row, vectors[row]
        row_of_digest.setdefault(digest, row)
        count += 1
    return kept[:count], tuple(left_out)


def _any_alike(vectors: Vectors, threshold: float) -> bool:
    """Whether any two rows reach the threshold. One matrix product answers the usual case, no duplicates, at once."""
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, -1.0)
    return bool(alike.max(initial=-1.0) >= threshold)
