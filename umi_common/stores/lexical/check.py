"""Whether the lexical index holds what the texts say: each text is analysed again and compared with its postings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from umi_common.pool import Ints
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.corpus import Corpus


def differing(corpus: Corpus, analyzer: Analyzer, rows: Ints, texts: Sequence[str]) -> list[int]:
    """Positions in `rows` whose terms, frequencies or length in the index are not those of the text.

    Args:
        rows: Rising.
        texts: One for each row.
    """
    known = rows < corpus.rows
    indexed = _indexed(corpus, rows[known])
    wrong = []
    for at, (row, text) in enumerate(zip(rows.tolist(), texts, strict=True)):
        terms = Counter(analyzer.terms(text))
        expected = {corpus.codes.get(term): count for term, count in terms.items()}
        alive = row < corpus.rows and bool(corpus.alive[row])
        if not alive or indexed[row] != expected or corpus.lengths[row] != terms.total():
            wrong.append(at)
    return wrong


def _indexed(corpus: Corpus, rows: Ints) -> dict[int, dict[int | None, int]]:
    """Term code -> frequency, for each of some rows; a pass over the postings of their segments."""
    held: dict[int, dict[int | None, int]] = {row: {} for row in rows.tolist()}
    asked = np.zeros(corpus.rows, dtype=np.bool_)
    asked[rows] = True
    for segment in (part.segment for part in corpus.parts):
        if not asked[segment.first : segment.last + 1].any():
            continue
        of_postings = segment.offsets.astype(np.int64) + segment.block
        places = np.flatnonzero(asked[of_postings])
        codes = segment.terms[np.searchsorted(segment.starts, places, side="right") - 1]
        found = zip(of_postings[places].tolist(), codes.tolist(), segment.tf[places].tolist(), strict=True)
        for row, code, count in found:
            held[row][code] = count
    return held
