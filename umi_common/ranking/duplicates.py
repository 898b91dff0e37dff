"""Near-duplicates collapse onto the best of them. Pure; MMR is another matter."""

from __future__ import annotations

import numpy as np

from umi_common.errors import ConfigError
from umi_common.pool import Ints, Vectors
from umi_common.taken import TakenRows

SIMILARITY = 0.98
ROUNDING = 1e-6
"""float32 dot products of equal vectors fall a little short of 1."""
NO_DIGEST = -1
"""A row whose words are not known to equal another's."""


def collapse(
    order: Ints,
    vectors: Vectors | TakenRows,
    *,
    similarity: float = SIMILARITY,
    limit: int | None = None,
    digests: Ints | None = None,
) -> tuple[Ints, tuple[tuple[int, int], ...]]:
    """Walk down the order; a row that is nearly one already kept is left out in its favour.

    Args:
        order: (m,) rows, best first, none twice.
        vectors: (n, dim) L2-normalised; a zero row is like nothing.
        similarity: Cosine at and above which two rows are one, 0 < similarity <= 1.
        limit: Stop when this many are kept; None: walk to the end.
        digests: (n,) equal numbers >= 0 for rows of the same words; NO_DIGEST compares with none.

    Returns:
        The kept rows in their order, and (row, kept row that is better) for each one left out on the way.

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
    said: dict[int, int] = {}
    left_out: list[tuple[int, int]] = []
    count = 0
    for row in order.tolist():
        if count == wanted:
            break
        digest = NO_DIGEST if digests is None else int(digests[row])
        twin = said.get(digest) if digest != NO_DIGEST else None
        if twin is None and count:
            alike = basis[:count] @ vectors[row]
            first = int((alike >= threshold).argmax())
            twin = int(kept[first]) if alike[first] >= threshold else None
        if twin is not None:
            left_out.append((row, twin))
            continue
        kept[count], basis[count] = row, vectors[row]
        said.setdefault(digest, row)
        count += 1
    return kept[:count], tuple(left_out)


def _any_alike(vectors: Vectors, threshold: float) -> bool:
    """Whether any two rows reach it: one product tells that there is nothing to collapse, as nearly always."""
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, -1.0)
    return bool(alike.max(initial=-1.0) >= threshold)
